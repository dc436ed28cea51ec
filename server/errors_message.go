package server

import (
	"fmt"
	"time"
)

// refuser is the part of the service that refuses a request. It determines the form of the
// message, what follows the message's text, and the headers of the answer. Clients parse
// none of it, but people search for these texts, and tests compare them.
type refuser int

const (
	// byGateway: the text alone. The answer tells nothing of a partition and has no charge.
	byGateway refuser = iota
	// byCompiler: the query compiler in the gateway, whose text is JSON.
	byCompiler
	// byBackend: a replica, with the text in a list of errors.
	byBackend
	// byEvaluator: a replica that evaluates a query or compiles a condition. Its text is JSON.
	byEvaluator
	// byDocuments: a replica, about the state of a document. The text stands alone, and is
	// followed by diagnostics.
	byDocuments
	// byFrontDoor: the HTTP server in front of the gateway. Nothing follows the text.
	byFrontDoor
	// byAdmin: the admin API, which the service does not have.
	byAdmin
)

// isBackend reports whether a replica refuses, and not the gateway in front of it.
func (by refuser) isBackend() bool { return by == byBackend || by == byEvaluator || by == byDocuments }

// sdk is the name with which the service's messages end.
const sdk = "Microsoft.Azure.Documents.Common/2.14.0"

// message returns the message of an error answer: the text in the form of its refuser, and
// what follows it. began is when the request arrived.
func (by refuser) message(text, activity string, began, now time.Time) string {
	const stamp = "2006-01-02T15:04:05.0000000Z"
	switch by {
	case byCompiler, byEvaluator:
		text = "Message: " + text
	case byBackend:
		text = `Message: {"Errors":[` + string(jsonString(text)) + `]}`
	case byGateway, byDocuments, byFrontDoor, byAdmin:
	}
	switch by {
	case byGateway, byCompiler:
		return text + "\r\nActivityId: " + activity + ", " + sdk
	case byBackend, byEvaluator:
		// There is no replica, so its address has no numbers.
		const none = "00000000-0000-0000-0000-000000000000"
		return text + "\r\nActivityId: " + activity + ", Request URI: /apps/" + none + "/services/" + none + "/partitions/" + none +
			"/replicas/0p/, RequestStats: , SDK: " + sdk
	case byDocuments:
		return fmt.Sprintf("%s, \r\nRequestStartTime: %s, RequestEndTime: %s,  Number of regions attempted:1\r\n{\"systemHistory\":[]}\r\nActivityId: %s, SDK: %s",
			text, began.UTC().Format(stamp), now.UTC().Format(stamp), activity, sdk)
	case byAdmin:
		return text + "\nActivityId: " + activity
	case byFrontDoor:
	}
	return text
}
