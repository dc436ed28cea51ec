package query

// Filter is the condition of a patch. It doesn't change and may be used by any
// number of goroutines.
type Filter struct {
	b *Bound
}

// Condition reads the condition of a patch, "from c where c.v = 3": FROM and
// WHERE only. Errors are those of [Parse].
func Condition(text string) (*Filter, error) {
	q, err := parseCondition(text)
	if err != nil {
		return nil, err
	}
	if err := check(text, q); err != nil {
		return nil, err
	}
	if len(sourcesOf(q)) > 0 {
		return nil, &UnsupportedError{What: "a condition on anything but the item itself (FROM x IN, a path in FROM)"}
	}
	b, err := bind(q, nil)
	if err != nil {
		return nil, err
	}
	return &Filter{b: b}, nil
}

// Match says whether the condition is true of a document. The error says that
// doc is no JSON object.
func (f *Filter) Match(doc []byte) (bool, error) {
	_, ok, err := f.b.Rows().Eval(doc)
	return ok, err
}
