package protocol

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// Parked is what a lease says of its letters: whether a new owner has to read those of its range
// before it hands anything out.
//
// The owner stores it with every position, so the position never passes a change whose key is
// parked before the next owner can learn of that. A lease without the property was last written
// by a host that does not know it.
type Parked int

// The values of Parked.
const (
	ParkedUnknown Parked = iota
	ParkedNone
	ParkedSome
)

// These are the keys of the lease's properties about letters.
const (
	// propertyLetters is "none", or "some" and the session token of the letters container as of
	// the last letter, after a space.
	propertyLetters = "letters"
	// propertyRedrive asks the owner to read the letters of its range and to hand out those
	// that wait for it. It is the time of the request (RFC 3339, UTC) and, after a space, the
	// session token of the letters container as of the last change to them. The owner removes
	// it before it reads. So what is changed while it exists will be read, and the request is
	// not repeated meanwhile: repeated writes would keep the lease of a dead owner alive.
	propertyRedrive = "redrive"
)

// ParkedOf returns what l says of its letters, and the session token in which they are to be read.
func ParkedOf(l lease.Lease) (p Parked, session string) {
	what, session, _ := strings.Cut(l.Properties[propertyLetters], " ")
	switch what {
	case "none":
		return ParkedNone, ""
	case "some":
		return ParkedSome, session
	}
	return ParkedUnknown, ""
}

// WithParked returns l with what it is to say of its letters.
func WithParked(l lease.Lease, p Parked, session string) lease.Lease {
	text := ""
	switch p {
	case ParkedUnknown:
		return without(l, propertyLetters)
	case ParkedNone:
		text = "none"
	case ParkedSome:
		text = strings.TrimSuffix("some "+session, " ")
	}
	if l.Properties[propertyLetters] == text {
		return l
	}
	return with(l, propertyLetters, text)
}

// AskedToRedrive reports whether somebody asks the owner of l to read its letters, and returns the
// session token in which to read them.
func AskedToRedrive(l lease.Lease) (session string, asked bool) {
	text, asked := l.Properties[propertyRedrive]
	_, session, _ = strings.Cut(text, " ")
	return session, asked
}

// AskToRedrive returns l with the request to read its letters, made at the given time. The caller
// does not own l, which must not have such a request yet.
func AskToRedrive(l lease.Lease, at time.Time, session string) lease.Lease {
	return with(l, propertyRedrive, strings.TrimSuffix(at.UTC().Format(time.RFC3339Nano)+" "+session, " "))
}

// AskOwner writes the request to read its letters into l by update, which is that of a [lease.Store].
// If its owner has written the lease meanwhile, AskOwner tries it with the new document. A request
// that the owner has not answered yet is not written again, because repeated writes would keep the
// lease of a dead owner alive; before is true then. The owner reads the letters after it has
// answered, and so finds the later changes to them, too.
func AskOwner(
	ctx context.Context, update func(context.Context, lease.Lease) (lease.Lease, error), l lease.Lease, at time.Time, session string,
) (before bool, err error) {
	for {
		if _, before = AskedToRedrive(l); before {
			return true, nil
		}
		_, err = update(ctx, AskToRedrive(l, at, session))
		conflict, changed := errors.AsType[*lease.ConflictError](err)
		if !changed {
			return false, err
		}
		l = conflict.Current
	}
}

// Answered returns l without the request to read its letters.
func Answered(l lease.Lease) lease.Lease { return without(l, propertyRedrive) }
