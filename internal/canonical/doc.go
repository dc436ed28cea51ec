// Package canonical rewrites JSON to the form in which Azure Cosmos DB stores it. The
// store and the query language share it, so that a number has one form in both.
//
// [Append] rewrites a document: white space goes, numbers become canonical, and half of a
// surrogate pair becomes U+FFFD. Everything else stays: the order of members, duplicate
// names, text outside ASCII, and escapes.
//
// [AppendFloat] writes a number that a query computed. [AppendQueried] rewrites the text
// of a stored document for the answer of a query.
//
// # Numbers
//
// An integer that is written without a point and an exponent keeps its digits if it is in
// the range of 64 bits, signed or unsigned. Every other number is a float64 first:
//
//   - An integer of 64 signed bits is written without a point and an exponent: 1.0 becomes
//     1, 1e2 becomes 100, and -0.0 becomes 0.
//   - Any other float64 is written as C's "%.15g" writes it if that text reads back as the
//     same float64, and otherwise as "%.17g" does. So 0.1 stays, 1/3 becomes
//     0.33333333333333331, and the least float64 becomes 4.94065645841247e-324, although it
//     could be 5e-324.
//
// The exponent has at least three digits in stored documents (1.5e+019), and at least two
// in the answers of queries (1.5e+19).
//
// All forms agree with recorded answers of the service. Not recorded are integers from
// 10^15 to 2^63 that a document writes with a point or an exponent, and the exponents of
// small numbers such as 1e-005.
package canonical
