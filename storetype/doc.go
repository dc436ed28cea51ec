// Package storetype has the values that go into package store and come out of it:
// documents and the options of their writes, the properties of databases and containers,
// and the errors. It has no machinery, so code that only passes such values on can import it
// without importing the store's engine.
package storetype
