// Package query evaluates the SQL of Azure Cosmos DB. [Parse] turns a text into a
// [Query]. [Query.Bind] adds the parameters and returns a [Bound].
//
// A Bound has two uses. [Bound.Rows] turns documents into rows. [Bound.Plan] describes
// the query for a client that merges the rows of several partitions itself.
//
// The package depends on neither HTTP nor storage. It reads one document at a time, as
// the stored bytes, and decodes only the members that the query names. Order, limits and
// pages concern several documents. [Shape] describes them, and the caller applies them
// with [Sorter].
//
// # Supported language
//
//	SELECT [DISTINCT] [TOP n] * | VALUE expression | expression [AS name], ...
//	FROM source JOIN source ...
//	WHERE condition
//	GROUP BY expression, ...
//	ORDER BY path [ASC | DESC], ...
//	OFFSET n LIMIT n
//
// A source is a path of the container or of an earlier source, its elements (name IN
// path), or a subquery. Expressions are:
//
//	parameters, paths, literals, object and array constructors
//	arithmetic and bit operators, comparisons, IN, BETWEEN, LIKE
//	AND, OR, NOT, ??, ?:, ||
//	subqueries as values and in EXISTS, ARRAY, ALL, FIRST and LAST
//	aggregates and the functions of package value
//
// The grammar reads the whole language. Features that are not evaluated, such as
// user-defined functions and ORDER BY RANK, are refused with a [syntax.UnsupportedError]
// that names the feature.
//
// Joins and subqueries read a single document. Their rows are produced one by one, in the
// memory of one row. See [Rows.Each].
//
// # Undefined and null
//
// A member that a document does not have is undefined, which is not null. An operation
// with an undefined operand is undefined. Only true selects a row.
//
// Between two defined values of different types, = is false and != is true, while <, <=,
// > and >= are undefined. AND and OR have three values. False AND undefined is false, and
// true OR undefined is true. Every other combination with undefined is undefined. Two
// arrays or objects are equal if all of their parts are equal. Numbers are integers of 64
// bits, or float64.
package query
