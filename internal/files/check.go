package files

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ration-dev/ration/internal/human"
)

// TrustVariable is the environment variable with the number of one further user
// whose files are trusted as root's are, such as the owner of a container's
// bind mount. What root creates in that user's folders belongs to that user.
// Empty means none.
const TrustVariable = "RATION_TRUST_OWNER"

// GroupVariable is the environment variable with the number of a group that
// shares ledgers, replicas and catalogues. Files and folders of that group are
// trusted whichever member owns them, and the group may write to them.
// What this package creates in a folder of the group gets mode 0660, or 2770,
// whatever the umask is. A secret that the group can read is refused as before.
// Empty means none.
const GroupVariable = "RATION_TRUST_GROUP"

// Shared reports whether GroupVariable is set. For a moment, until its mode is
// set, other members cannot write to what SQLite creates beside a database.
func Shared() bool { return os.Getenv(GroupVariable) != "" }

// ErrUnsafe matches all refusals: another user may have written a file, or may
// read a secret.
var ErrUnsafe = errors.New("unsafe file")

// unsafeError lists all that is unsafe about some files and their folders, in
// one line.
type unsafeError struct {
	what, do    []string // the findings, and what to do about them
	write, read []string // paths that others may write to, or read
}

func (e *unsafeError) Is(target error) bool { return target == ErrUnsafe }

func (e *unsafeError) Error() string {
	var commands []string
	if len(e.write) > 0 {
		commands = append(commands, "chmod go-w "+strings.Join(e.write, " "))
	}
	if len(e.read) > 0 {
		commands = append(commands, "chmod go-rwx "+strings.Join(e.read, " "))
	}
	do := slices.Compact(slices.Clone(e.do))
	if len(commands) > 0 {
		do = append(do, "run "+strings.Join(commands, " && "))
	}
	return strings.Join(e.what, ", ") + "; " + strings.Join(do, "; ")
}

// add adds a finding once; list is where its path or its remedy belongs.
func (e *unsafeError) add(what string, list *[]string, item string) {
	if !slices.Contains(e.what, what) {
		e.what, *list = append(e.what, what), append(*list, item)
	}
}

// check collects what is unsafe about files and their folders.
type check struct {
	us    uint32
	users []uint32 // us, root, and the user of TrustVariable
	group uint32   // the group of GroupVariable, or 0

	isSecret bool // only its owner may read the file
	found    unsafeError
}

func newCheck() (*check, error) {
	us := uint32(os.Geteuid())
	c := &check{us: us, users: []uint32{us, 0}}
	if text := os.Getenv(TrustVariable); text != "" {
		user, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%w: %s=%q is not the number of a user; set it to one, as id -u prints it",
				ErrUnsafe, TrustVariable, text)
		}
		c.users = append(c.users, uint32(user))
	}
	if text := os.Getenv(GroupVariable); text != "" {
		group, err := strconv.ParseUint(text, 10, 32)
		if err != nil || group == 0 {
			return nil,
				fmt.Errorf("%w: %s=%q is not the number of a group; set it to one, as getent group prints it, but "+
					"not to 0", ErrUnsafe, GroupVariable, text)
		}
		c.group = uint32(group)
	}
	return c, nil
}

// err returns what was found so far, or nil.
func (c *check) err() error {
	if len(c.found.what) == 0 {
		return nil
	}
	return &c.found
}

// isShared reports whether a file or folder belongs to the group of
// GroupVariable.
func (c *check) isShared(info fs.FileInfo) bool {
	_, group := ownerOf(info)
	return c.group != 0 && group == c.group
}

// folder checks a folder.
func (c *check) folder(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	c.owner(dir, info)
	return c.err()
}

// file checks a file without opening it.
func (c *check) file(path string) error {
	info, err := os.Lstat(path)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		failed.Op = "open" // which is what the caller wants to do
	}
	if err != nil {
		return err
	}
	return c.inspect(path, info)
}

// inspect checks what stat says of a file.
func (c *check) inspect(path string, info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		c.found.add(path+": it is a symbolic link", &c.found.do, "name the file that it leads to, or remove the link")
		return c.err()
	case !info.Mode().IsRegular():
		c.found.add(path+": it is not a regular file", &c.found.do, "name a regular file")
		return c.err()
	}
	c.owner(path, info)
	readers := fs.FileMode(0o044)
	if user, _ := ownerOf(info); user == 0 && c.us != 0 {
		readers = 0o004
	}
	if mode := info.Mode().Perm(); c.isSecret && hasOwners && mode&readers != 0 {
		what := fmt.Sprintf("%s: others may read this secret (mode %04o)", path, mode)
		c.found.add(what, &c.found.read, human.ShellQuote(path))
	}
	return c.err()
}

// maxLinks is how many symbolic links in a row are followed.
const maxLinks = 16

// follow returns the file that a path leads to. It checks the symbolic links on
// the way, and the folders in which they could be replaced.
func (c *check) follow(path string) (string, error) {
	for range maxLinks {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return path, nil // opening it reports an error
		}
		if err := c.folder(filepath.Dir(path)); err != nil {
			return "", err
		}
		if hasOwners {
			c.user(path, info)
		}
		target, err := os.Readlink(path)
		if err := cmp.Or(c.err(), err); err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) { // not joined: .. may follow a link
			target = filepath.Dir(path) + string(filepath.Separator) + target
		}
		path = target
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("too many symbolic links")}
}

// user checks whose a file or folder is.
func (c *check) user(path string, info fs.FileInfo) {
	if user, _ := ownerOf(info); !c.isShared(info) && !slices.Contains(c.users, user) {
		what := fmt.Sprintf("%s: it belongs to user %d, who is neither you nor root", path, user)
		c.found.add(what, &c.found.do, fmt.Sprintf("use files of your own, or trust that user with %s=%d",
			TrustVariable, user))
	}
}

// owner checks whose a file or folder is, and who may write to it.
func (c *check) owner(path string, info fs.FileInfo) {
	if !hasOwners {
		return
	}
	user, group := ownerOf(info)
	isShared := c.isShared(info)
	c.user(path, info)
	writers := fs.FileMode(0o022)
	if isShared || group == user && user != 0 { // containers give group 0 to arbitrary users
		writers = 0o002
	}
	mode := info.Mode()
	isSticky := info.IsDir() && mode&fs.ModeSticky != 0 && !isShared
	if mode&writers != 0 && !isSticky {
		what := fmt.Sprintf("%s: others may write to it (mode %04o)", path, mode.Perm())
		c.found.add(what, &c.found.write, human.ShellQuote(path))
	}
}
