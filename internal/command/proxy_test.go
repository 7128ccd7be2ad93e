package command_test

import (
	"slices"
	"testing"

	"github.com/ration-dev/ration/internal/command"
)

// TestNoProxyForAllHostsIsKept: to curl and Python, a list that has * among
// its hosts is not *.
func TestNoProxyForAllHostsIsKept(t *testing.T) {
	for _, test := range []struct{ env, want []string }{
		{[]string{"HOME=/"}, []string{"HOME=/"}},
		{[]string{"http_proxy=proxy"}, []string{"http_proxy=proxy", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1"}},
		{[]string{"no_proxy=.example"}, []string{"no_proxy=.example", "NO_PROXY=.example,127.0.0.1",
			"no_proxy=.example,127.0.0.1"}},
		{[]string{"HTTP_PROXY=proxy", "no_proxy=*"},
			[]string{"HTTP_PROXY=proxy", "no_proxy=*", "NO_PROXY=*", "no_proxy=*"}},
	} {
		if got := command.WithoutProxy(test.env); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q; want %q", test.env, got, test.want)
		}
	}
}
