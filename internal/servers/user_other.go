//go:build !unix

package servers

import "os/exec"

func giveToUser(string) error { return nil }

func asUser(cmd *exec.Cmd, dir string) *exec.Cmd {
	cmd.Dir = dir
	return cmd
}

// Stop stops the server at once, as a crash does, and waits until it has ended.
func (s *Postgres) Stop() {
	_ = s.cmd.Process.Kill()
	<-s.done
}
