package cosmos

import (
	"fmt"
	"net/url"
)

// address names a container of an account.
type address struct {
	account             *Account
	database, container string
}

// what names the container in errors.
func (a *address) what() string {
	return fmt.Sprintf("container %s of database %s in %s", a.container, a.database, a.account.host)
}

// path returns the escaped URL path of the container.
func (a *address) path() string { return a.parent() + "/" + url.PathEscape(a.container) }

// parent returns the escaped URL path of the database's containers.
func (a *address) parent() string { return "/dbs/" + url.PathEscape(a.database) + "/colls" }

// refusal describes a call that requires a right, for the error if the service refuses it.
func (a *address) refusal(action string) refusal {
	return refusal{what: a.what(), action: action, byKey: a.account.client.byKey}
}
