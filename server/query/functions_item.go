package query

// itemFunctions are the functions of whole documents.
var itemFunctions = map[string]function{
	"DOCUMENTID": {class: classItem, min: 1, max: 1},
}
