package privatefile

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/textfmt"
)

// ErrUnsafe matches every *Error: another user may have written a file, or may
// read a secret.
var ErrUnsafe = errors.New("unsafe file")

// Problem says what is unsafe about a file or a folder.
type Problem uint8

// The problems of a Finding.
const (
	Owner      Problem = iota + 1 // owned by an untrusted user
	Writeable                     // writable by its group or by others
	Readable                      // a secret that is readable by its group or by others
	Link                          // a symbolic link
	Linked                        // has a second hard link, in a folder that all users share
	NotRegular                    // a folder, a pipe, a socket or a device
)

// Finding is one thing that is unsafe.
type Finding struct {
	Path    string
	Problem Problem
	Owner   uint32      // the user, for Owner
	Mode    fs.FileMode // the permissions, for Writeable and Readable
}

// String says what is unsafe, and where.
func (f Finding) String() string {
	switch f.Problem {
	case Owner:
		return fmt.Sprintf("%s: it belongs to user %d, who is neither you nor root", f.Path, f.Owner)
	case Writeable:
		return fmt.Sprintf("%s: others may write to it (mode %04o)", f.Path, f.Mode)
	case Readable:
		return fmt.Sprintf("%s: others may read this secret (mode %04o)", f.Path, f.Mode)
	case Link:
		return f.Path + ": it is a symbolic link"
	case Linked:
		return f.Path + ": it has a second name, in a folder that all users share"
	}
	return f.Path + ": it is not a regular file"
}

// Error lists all that is unsafe about some files and their folders. Its
// message is one line.
type Error struct {
	Findings []Finding // at least one
}

// Is reports whether target is ErrUnsafe.
func (e *Error) Is(target error) bool { return target == ErrUnsafe }

// Error says what is unsafe and what to do about it.
func (e *Error) Error() string {
	var what, write, read, do []string
	add := func(step string) {
		if !slices.Contains(do, step) {
			do = append(do, step)
		}
	}
	for _, f := range e.Findings {
		what = append(what, f.String())
		switch f.Problem {
		case Owner:
			add(fmt.Sprintf("use files of your own, or trust that user with %s=%d", TrustVariable, f.Owner))
		case Writeable:
			write = append(write, textfmt.ShellQuote(f.Path))
		case Readable:
			read = append(read, textfmt.ShellQuote(f.Path))
		case Link:
			add("name the file that it leads to, or remove the link")
		case Linked:
			add("move it to a folder of your own")
		default:
			add("name a regular file")
		}
	}
	var commands []string
	if len(write) > 0 {
		commands = append(commands, "chmod go-w "+strings.Join(write, " "))
	}
	if len(read) > 0 {
		commands = append(commands, "chmod go-rwx "+strings.Join(read, " "))
	}
	if len(commands) > 0 {
		add("run " + strings.Join(commands, " && "))
	}
	return strings.Join(what, ", ") + "; " + strings.Join(do, "; ")
}
