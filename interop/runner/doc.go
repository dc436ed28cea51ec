// Command runner runs the interop suites: for each suite and transport it starts a fresh
// server, runs the suite against it, ends the server by SIGTERM, and prints what every suite
// did with every scenario. `interop/README.md` says what a suite has to do.
//
//	go run ./interop/runner [-suites go,js] [-transports tls,plain] [-v]
//
// It exits 1 when a scenario failed, was neither run nor declared missing, or a server did not end as it should.
package main
