package wire

import (
	"strconv"
	"strings"
)

// SessionToken writes the session token of a partition: <id>:-1#<lsn>, the vector
// form of an account with one region. Clients merge tokens of one form only, so it
// is never written otherwise.
func SessionToken(partition string, lsn int64) string {
	return partition + ":-1#" + strconv.FormatInt(lsn, 10)
}

// SessionLSN reads the global LSN of a partition from a session token, which may
// list several partitions. It takes every form that a client sends; ok is false
// when the partition isn't among them or the token can't be read.
func SessionLSN(token, partition string) (lsn int64, ok bool) {
	for part := range strings.SplitSeq(token, ",") {
		id, vector, found := strings.Cut(strings.TrimSpace(part), ":")
		if !found || id != partition {
			continue
		}
		global := vector // <lsn>, before 2018
		if fields := strings.Split(vector, "#"); len(fields) > 1 {
			global = fields[1] // <version>#<global lsn>[#<region>=<local lsn>]...
		}
		n, err := strconv.ParseInt(global, 10, 64)
		return n, err == nil
	}
	return 0, false
}
