package query

// stringConversions are the functions between strings and other values.
var stringConversions = map[string]function{
	"STRINGTOARRAY":   {class: classString, min: 1, max: 1},
	"STRINGTOBOOLEAN": {class: classString, min: 1, max: 1},
	"STRINGTONULL":    {class: classString, min: 1, max: 1},
	"STRINGTONUMBER":  {class: classString, min: 1, max: 1},
	"STRINGTOOBJECT":  {class: classString, min: 1, max: 1},
	"TOSTRING":        {class: classString, min: 1, max: 1},
}
