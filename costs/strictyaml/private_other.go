//go:build !unix

package strictyaml

import "io/fs"

// othersMayWrite cannot be told from a mode here.
func othersMayWrite(fs.FileInfo) bool { return false }
