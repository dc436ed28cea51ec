package simulation

import "sync"

// states holds what single features keep of a scenario, of a world or of a view: one value
// for each type, which only the code of its feature names. The zero value holds none.
type states struct {
	mu     sync.Mutex // guards values
	values map[any]any
}

// stateOf returns the value of type T. It is zero at the first call.
func stateOf[T any](s *states) *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := (*T)(nil) // names the type
	if s.values[key] == nil {
		if s.values == nil {
			s.values = map[any]any{}
		}
		s.values[key] = new(T)
	}
	return s.values[key].(*T) //nolint:errcheck // the key's type is that of the value
}
