// Package storetype has the values that go into package store and come out of it:
// documents and write options, the properties of databases and containers, and the
// errors. Since it has no machinery, code that only passes such values on can import it
// without the store's engine.
package storetype
