package privatefile

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// rules are what a file must keep beyond the rules for all.
type rules struct {
	secret bool // only its owner may read it
	links  bool // the path itself may be a link
}

// maxLinks is how many symbolic links a path may go through.
const maxLinks = 40

// judge gathers what is unsafe about files and the folders that lead to them.
type judge struct {
	rules
	us      uint32
	trusted []uint32 // us, root, and the user of TrustVariable
	above   []uint32 // in addition, whom the folders further up may belong to

	folders  map[string]string // checked folders, and where they lead
	shared   map[string]bool   // of those, the ones where every user may create files
	closed   map[string]bool   // folders that only trusted users can reach
	findings []Finding
}

func newJudge() (*judge, error) {
	j := &judge{us: uint32(os.Geteuid()), folders: map[string]string{}, shared: map[string]bool{}, closed: map[string]bool{}}
	j.trusted = []uint32{j.us, 0}
	if text := os.Getenv(TrustVariable); text != "" {
		uid, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%w: %s=%q is not the number of a user; write one, as id -u prints it", ErrUnsafe, TrustVariable, text)
		}
		j.trusted = append(j.trusted, uint32(uid))
	}
	return j, nil
}

// verdict returns what was found as an error, or nil.
func (j *judge) verdict() error {
	if len(j.findings) == 0 {
		return nil
	}
	return &Error{Findings: slices.Clone(j.findings)}
}

func (j *judge) found(f Finding) {
	if !slices.Contains(j.findings, f) {
		j.findings = append(j.findings, f)
	}
}

// path judges a file and its folder, without opening the file.
func (j *judge) path(path string) error {
	resolved, err := j.locate(path)
	if err != nil {
		return err
	}
	info, err := os.Lstat(resolved)
	if err != nil {
		return named(err, path)
	}
	j.file(path, info)
	return nil
}

// locate judges the folders that lead to a file, and returns its path without
// the links among them.
func (j *judge) locate(path string) (string, error) {
	whole, err := filepath.Abs(path)
	if err != nil || path == "" {
		return "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	folder, err := j.folder(filepath.Dir(whole))
	if err != nil {
		return "", err
	}
	resolved := filepath.Join(folder, filepath.Base(whole))
	for range maxLinks {
		info, err := os.Lstat(resolved)
		if err != nil || !j.links || info.Mode()&fs.ModeSymlink == 0 {
			return resolved, nil
		}
		j.link(resolved, info)
		target, err := os.Readlink(resolved)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(folder, target)
		}
		if folder, err = j.folder(filepath.Dir(target)); err != nil {
			return "", err
		}
		resolved = filepath.Join(folder, filepath.Base(target))
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
}

// folder judges a folder and those above it, and returns where it leads.
func (j *judge) folder(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if resolved, ok := j.folders[dir]; ok {
		return resolved, nil
	}
	resolved := dir
	if hasOwners {
		if resolved, err = j.walk(dir); err != nil {
			return "", named(err, dir)
		}
	}
	j.folders[dir] = resolved
	return resolved, nil
}

// walk goes from the root to dir, one name at a time, so that each link is
// seen together with who made it.
func (j *judge) walk(dir string) (string, error) {
	root := filepath.VolumeName(dir) + string(filepath.Separator)
	at, rest, links := root, split(dir[len(root):]), 0
	passed := map[string]fs.FileInfo{}
	for {
		info, err := os.Lstat(at)
		switch {
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return "", &fs.PathError{Op: "open", Path: dir, Err: syscall.ELOOP}
			}
			j.link(at, info)
			target, err := os.Readlink(at)
			if err != nil {
				return "", err
			}
			at = filepath.Dir(at)
			if filepath.IsAbs(target) {
				at = root
			}
			rest = append(split(target), rest...)
		case !info.IsDir():
			return "", &fs.PathError{Op: "open", Path: at, Err: syscall.ENOTDIR}
		default:
			if at == root {
				j.above = append(slices.Clone(j.trusted), ownerOf(info).uid)
			}
			passed[at] = info
		}
		if len(rest) == 0 {
			break
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:]
	}
	for _, name := range slices.Sorted(maps.Keys(passed)) { // each after those above it
		j.closed[name] = passed[name].Mode().Perm()&0o011 == 0 || j.closed[filepath.Dir(name)]
		if name != at {
			j.ancestor(name, passed[name])
		}
	}
	j.parent(at, passed[at])
	return at, nil
}

// split returns the names in a path, without empty ones and those that stand
// for the folder itself. filepath.Join resolves "..", which is right after a
// link was resolved.
func split(path string) []string {
	return slices.DeleteFunc(strings.Split(filepath.ToSlash(path), "/"), func(name string) bool { return name == "" || name == "." })
}

// parent judges the folder in which the file is. Its group may write to it if
// a folder above it keeps the group out, as under a umask of 002 in a home of mode 0700.
func (j *judge) parent(path string, info fs.FileInfo) {
	o, mode := ownerOf(info), info.Mode()
	j.shared[path] = mode&fs.ModeSticky != 0 && mode.Perm()&0o022 != 0
	if !slices.Contains(j.trusted, o.uid) {
		j.found(Finding{Path: path, Problem: Owner, Owner: o.uid})
	}
	if j.closed[path] {
		mode &^= 0o020
	}
	if !j.shared[path] && othersMayWrite(mode, o) {
		j.found(Finding{Path: path, Problem: Writeable, Mode: info.Mode().Perm()})
	}
}

// ancestor judges a folder further up. One of root's that a group may write to
// is the system's, such as /usr/local on Debian.
func (j *judge) ancestor(path string, info fs.FileInfo) {
	o, mode := ownerOf(info), info.Mode()
	if !slices.Contains(j.above, o.uid) {
		j.found(Finding{Path: path, Problem: Owner, Owner: o.uid})
	}
	if o.uid == 0 || j.closed[path] {
		mode &^= 0o020
	}
	if mode&fs.ModeSticky == 0 && othersMayWrite(mode, o) {
		j.found(Finding{Path: path, Problem: Writeable, Mode: info.Mode().Perm()})
	}
}

// link judges a symbolic link among the folders that lead to a file.
func (j *judge) link(path string, info fs.FileInfo) {
	if o := ownerOf(info); hasOwners && !slices.Contains(append(j.above, j.trusted...), o.uid) {
		j.found(Finding{Path: path, Problem: Owner, Owner: o.uid})
	}
}

// file judges the file itself.
func (j *judge) file(path string, info fs.FileInfo) {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		j.found(Finding{Path: path, Problem: Link})
		return
	case !info.Mode().IsRegular():
		j.found(Finding{Path: path, Problem: NotRegular})
		return
	case !hasOwners:
		return
	}
	o, mode := ownerOf(info), info.Mode().Perm()
	if !slices.Contains(j.trusted, o.uid) {
		j.found(Finding{Path: path, Problem: Owner, Owner: o.uid})
	}
	if othersMayWrite(mode, o) {
		j.found(Finding{Path: path, Problem: Writeable, Mode: mode})
	}
	if o.links > 1 && j.shared[j.folderOf(path)] { // another user may have made the second name
		j.found(Finding{Path: path, Problem: Linked})
	}
	allowed := fs.FileMode(0o700)
	if o.uid == 0 && j.us != 0 {
		allowed |= 0o050
	}
	if j.secret && mode&^allowed&0o044 != 0 && !j.closed[j.folderOf(path)] {
		j.found(Finding{Path: path, Problem: Readable, Mode: mode})
	}
}

// folderOf returns where the folder of a file that was located leads.
func (j *judge) folderOf(path string) string {
	whole, _ := filepath.Abs(path) // it did not fail before
	return j.folders[filepath.Dir(whole)]
}

// othersMayWrite reports whether anyone but the owner may write. A group of
// the owner's own, which systems with a umask of 002 rely on, is the owner.
func othersMayWrite(mode fs.FileMode, o owner) bool {
	return mode&0o002 != 0 || mode&0o020 != 0 && !ownGroup(o)
}
