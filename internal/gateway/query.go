package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/ration-dev/ration/internal/strictyaml"
)

// withParameters answers a request whose query has anything but the known
// parameters, each once, with what is wrong, and passes others on. A misspelled
// parameter would otherwise widen what the request is about.
func withParameters(known []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkParameters(r, known); err != nil {
			newProblem(http.StatusBadRequest, "bad-query", "%v", err).write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func checkParameters(r *http.Request, known []string) error {
	query, err := readQuery(r)
	if err != nil {
		return err
	}
	none := "this request has none"
	if r.Method == http.MethodPost {
		none += ", write its values into the body"
	}
	return CheckQuery(query, known, none)
}

// CheckQuery returns a *QueryError for a parameter that is given twice, or that
// is not one of those known. none says that there are none.
func CheckQuery(query url.Values, known []string, none string) error {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case slices.Contains(known, name) && len(query[name]) == 1:
		case slices.Contains(known, name):
			return &QueryError{fmt.Errorf("%s is given %d times; give it once", name, len(query[name]))}
		case len(known) > 0:
			return &QueryError{fmt.Errorf("unknown parameter %q: %s", name, strictyaml.Advice(name, known))}
		default:
			return &QueryError{fmt.Errorf("unknown parameter %q; %s", name, none)}
		}
	}
	return nil
}

// readQuery returns the parameters of a request, or a *QueryError.
func readQuery(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &QueryError{fmt.Errorf("the query is malformed: %w", err)}
	}
	return query, nil
}
