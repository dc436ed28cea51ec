// Package cputime tells how much processor time the process has used, for measurements that other
// processes should disturb little.
package cputime
