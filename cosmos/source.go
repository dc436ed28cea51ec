package cosmos

// SourceOptions say how a container's feed is read.
type SourceOptions struct{}

// Source is the change feed of a container, a [feed.Source]. Its methods may be called concurrently.
type Source struct {
	account             *Account
	database, container string
	options             SourceOptions
}

// Source is the feed of a container, which is first asked for when the Source is used.
func (a *Account) Source(database, container string, o SourceOptions) *Source {
	return &Source{account: a, database: database, container: container, options: o}
}
