package files

import "os"

// spool holds bytes in memory, and what exceeds its limit there in a file. The
// zero value is empty and has no room.
type spool struct {
	inMemory int   // the limit of memory
	inFile   int64 // the limit of file

	memory  []byte
	file    *os.File // nil before something is written to it
	name    string   // of file, if it must be removed
	written int64    // to file
	tail    []byte   // what could not be written to file, which has no more room then
}

// room returns how many more bytes fit.
func (s *spool) room() int64 {
	if left := s.inMemory - len(s.memory); left > 0 {
		return int64(left)
	}
	if s.tail != nil {
		return 0
	}
	return s.inFile - s.written
}

// add appends at most room bytes.
func (s *spool) add(p []byte) {
	if len(p) == 0 {
		return
	}
	if len(s.memory) < s.inMemory {
		s.memory = append(s.memory, p...)
		return
	}
	n := 0
	err := s.create()
	if err == nil {
		n, err = s.file.WriteAt(p, s.written)
	}
	s.written += int64(n)
	if err != nil {
		s.tail = append(s.tail, p[n:]...)
	}
}

// create creates the file. It is removed at once where open files can be, so
// that nothing is left of a process that is killed.
func (s *spool) create() (err error) {
	if s.file != nil {
		return nil
	}
	if s.file, err = os.CreateTemp("", "ration-body-"); err == nil && os.Remove(s.file.Name()) != nil {
		s.name = s.file.Name()
	}
	return err
}

// readAt reads from a position on, and returns 0 at the end.
func (s *spool) readAt(p []byte, at int64) (int, error) {
	if at < int64(len(s.memory)) {
		return copy(p, s.memory[at:]), nil
	}
	at -= int64(len(s.memory))
	if at < s.written {
		return s.file.ReadAt(p[:min(int64(len(p)), s.written-at)], at)
	}
	return copy(p, s.tail[at-s.written:]), nil
}

func (s *spool) discard() {
	if s.file != nil {
		_ = s.file.Close()
	}
	if s.name != "" {
		_ = os.Remove(s.name)
	}
}
