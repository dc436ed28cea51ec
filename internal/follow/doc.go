// Package follow has the rules for following a change feed that every reader obeys: when
// an empty page is the end ([Tail]), how long to pause there ([Pace], [Sleep]), and how a range of
// keys is cut over partitions ([Over]).
//
// It knows no types of package feed, so that feed itself can use it. LSNs are numbers, and
// a time is counted from any fixed moment.
package follow
