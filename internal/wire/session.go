package wire

import (
	"strconv"
	"strings"
)

// SessionToken returns the session token of a partition: <id>:-1#<lsn>, the vector form
// of an account with one region. Clients can only merge tokens of one form.
func SessionToken(partition string, lsn int64) string {
	return partition + ":-1#" + strconv.FormatInt(lsn, 10)
}

// SessionLSN returns the global LSN of a partition in a session token, which may list
// several partitions. It accepts every form that clients send. ok is false if the token
// does not list the partition or is invalid.
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
