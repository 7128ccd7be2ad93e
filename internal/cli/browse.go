package cli

import (
	"cmp"
	"os/exec"
	"runtime"
)

// Browse opens a URL in the user's browser, if there is one.
func Browse(url string) {
	opener := map[string]string{"darwin": "open", "windows": "explorer"}[runtime.GOOS]
	cmd := exec.Command(cmp.Or(opener, "xdg-open"), url)
	if err := cmd.Start(); err != nil {
		return // the URL was printed
	}
	go func() { _ = cmd.Wait() }()
}
