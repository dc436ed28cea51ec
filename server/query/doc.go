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
//	SELECT [TOP n] * | VALUE expression | expression [AS name], ...
//	FROM name [AS] alias
//	WHERE condition
//	ORDER BY path [ASC | DESC], ...
//	OFFSET n LIMIT n
//
// with parameters, paths, literals, object and array constructors, arithmetic,
// comparison, IN, BETWEEN, AND, OR, NOT, ??, ?:, || and the functions of
// functions.go. The grammar reads the whole language; what isn't evaluated yet
// (JOIN, subqueries, DISTINCT, GROUP BY, LIKE, aggregates other than COUNT,
// user-defined functions...) is refused by its name with [UnsupportedError].
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
