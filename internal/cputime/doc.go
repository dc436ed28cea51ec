// Package cputime measures the processor time of the process. Other processes affect it
// less than the elapsed time.
package cputime
