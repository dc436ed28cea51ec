package simulation

// gap is a case that no seed contains. testedBy says what tests it instead.
type gap struct{ what, testedBy string }

// notGenerated lists the cases of the processor's users that no seed contains.
var notGenerated = []gap{}
