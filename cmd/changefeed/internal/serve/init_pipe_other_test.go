//go:build !unix

package serve

import "errors"

func makePipe(string) error { return errors.ErrUnsupported }
