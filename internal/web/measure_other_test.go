//go:build !linux

package web_test

import "testing"

// measure needs getrusage, and is read on Linux only.
func (p *tab) measure(*testing.T) {}
