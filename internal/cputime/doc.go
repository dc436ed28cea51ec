// Package cputime measures the processor time of the process. Call [Used] before and
// after the measured work, and subtract. Other processes affect processor time less than
// they affect elapsed time.
package cputime
