// Package query reads the SQL of Azure Cosmos DB: a text becomes a [Query],
// with its parameters a [Bound], and that turns documents into rows
// ([Bound.Rows]) or says what it is for a client that merges the rows of
// several partitions itself ([Bound.Plan]).
//
// The package knows neither HTTP nor storage. It sees one document at a time,
// as the bytes that are stored, and decodes of it only what the query names.
// What has to be decided over several documents (order, limits, pages) is
// described by [Shape] and left to the caller, who has [Sorter] for it.
//
// # What is understood
//
//	SELECT [DISTINCT] [TOP n] * | VALUE expression | expression [AS name], ...
//	FROM source JOIN source ...
//	WHERE condition
//	GROUP BY expression, ...
//	ORDER BY path [ASC | DESC], ...
//	OFFSET n LIMIT n
//
// where a source is a path of the container or of an earlier source, its elements
// (name IN path), or a subquery; with parameters, paths, literals, object and array
// constructors, arithmetic, bits, comparison, IN, BETWEEN, LIKE, AND, OR, NOT, ??,
// ?:, ||, subqueries as values and in EXISTS, ARRAY, ALL, FIRST and LAST, aggregates
// and the functions of functions.go. The grammar reads the whole language; what
// isn't evaluated (user-defined functions, ORDER BY RANK...) is refused by its name
// with an [syntax.UnsupportedError].
//
// Whatever a document makes is made of that document: a join's rows one by one, in
// the memory of one row, and a subquery's likewise. See [Rows.Each].
//
// # Undefined and null
//
// A member that a document doesn't have is undefined, which is not null.
// Anything with undefined is undefined, and only true selects a row. Between
// two defined values of different types = is false and != is true, while <,
// <=, > and >= are undefined. AND and OR have three values: false AND undefined
// is false, true OR undefined is true, everything else with undefined is
// undefined. Arrays and objects are equal when they are so in depth. Numbers
// are float64.
package query
