//go:build unix

package servers

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// serverUser returns the user that runs servers: postgres or nobody if the
// tests run as root, which PostgreSQL refuses.
func serverUser() (uid, gid int) {
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(found.Uid)
		gid, gidErr := strconv.Atoi(found.Gid)
		if uidErr == nil && gidErr == nil {
			return uid, gid
		}
	}
	return 65534, 65534
}

func giveToUser(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid := serverUser()
	return os.Chown(dir, uid, gid)
}

// asUser lets a command run in a folder as the user of servers.
func asUser(cmd *exec.Cmd, dir string) *exec.Cmd {
	cmd.Dir = dir
	if os.Geteuid() == 0 {
		uid, gid := serverUser()
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	return cmd
}

// Stop stops the server at once, as a crash does, and waits until it has ended.
func (s *Postgres) Stop() {
	_ = s.cmd.Process.Signal(syscall.SIGQUIT) // PostgreSQL's children would outlive a SIGKILL
	<-s.done
}
