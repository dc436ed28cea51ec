// Package seed sets the seed of a processor. Tests set it, so it is not a field of
// changefeed.Config.
package seed

// Set sets the seed of config, which is a *changefeed.Config. Package changefeed assigns
// Set. The seed determines the processor's jitter and the suffix of its owner text. Two
// runs with the same Config.Instance must not share a seed. A seed of zero is random.
var Set func(config any, seed uint64)
