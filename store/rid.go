package store

// Resource ids (_rid) are base64 with - for /, and .NET and Java take them
// apart: a database has 4 bytes, a container 8 (those of the database first; the top bit of byte 4
// set), a document 16 (those of the container first).

// maxDocumentNumber is the highest number a document of a container can have, see documentRID.
const maxDocumentNumber = 1<<28 - 1

// databaseRID is the rid of database number n, which is positive.
func databaseRID(n uint32) string { panic("to do") }

// containerRID is the rid of container number n (below 2^31) in database number database.
func containerRID(database, n uint32) string { panic("to do") }

// documentRID is the rid of document number n, from 1 to maxDocumentNumber: n big-endian, then
// n little-endian, so that SDKs which compare rids in either byte order agree.
func documentRID(database, container, n uint32) string { panic("to do") }

// rid is a resource id taken apart. Container and document are 0 in a shorter one.
type rid struct{ database, container, document uint32 }

// parseRID reads a rid of any of the three kinds; ok is false for other texts.
func parseRID(s string) (r rid, ok bool) { panic("to do") }

// databaseSelf and containerSelf are the _self links.
func databaseSelf(database uint32) string { panic("to do") }

func containerSelf(database, container uint32) string { panic("to do") }
