package query

// dateFunctions are the functions of dates and times.
var dateFunctions = map[string]function{
	"AGO":                       {class: classDate, min: 2, max: 2},
	"DATETIMEADD":               {class: classDate, min: 3, max: 3},
	"DATETIMEBIN":               {class: classDate, min: 2, max: 4},
	"DATETIMEDIFF":              {class: classDate, min: 3, max: 3},
	"DATETIMEFORMAT":            {class: classDate, min: 2, max: 2},
	"DATETIMEFROMPARTS":         {class: classDate, min: 3, max: 7},
	"DATETIMEPART":              {class: classDate, min: 2, max: 2},
	"DATETIMETOTICKS":           {class: classDate, min: 1, max: 1},
	"DATETIMETOTIMESTAMP":       {class: classDate, min: 1, max: 1},
	"DAY":                       {class: classDate, min: 1, max: 1},
	"GETCURRENTDATETIME":        {class: classDate, min: 0, max: 0},
	"GETCURRENTDATETIMESTATIC":  {class: classDate, min: 0, max: 0},
	"GETCURRENTTICKS":           {class: classDate, min: 0, max: 0},
	"GETCURRENTTICKSSTATIC":     {class: classDate, min: 0, max: 0},
	"GETCURRENTTIMESTAMP":       {class: classDate, min: 0, max: 0},
	"GETCURRENTTIMESTAMPSTATIC": {class: classDate, min: 0, max: 0},
	"MONTH":                     {class: classDate, min: 1, max: 1},
	"NOW":                       {class: classDate, min: 0, max: 2},
	"TICKSTODATETIME":           {class: classDate, min: 1, max: 1},
	"TIMESTAMPTODATETIME":       {class: classDate, min: 1, max: 1},
	"YEAR":                      {class: classDate, min: 1, max: 1},
}
