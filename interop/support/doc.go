// Command support writes docs/support.md: which operations of the protocol the server has, which of them each SDK was seen to
// use, and what became of each scenario in each SDK. Nothing of it is written by hand: operations are those of the server's
// table of routes, scenarios those of interop/scenarios.json, and what the SDKs did is in interop/results.json, which the runner
// records, and in each suite's missing.json.
package main
