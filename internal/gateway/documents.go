package gateway

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

//go:embed openapi.json
var openAPI []byte

func (g *Gateway) serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	g.writeAnswer(w, http.StatusOK, "application/json", openAPI)
}

// QueryError says what is wrong with the query of a request.
type QueryError struct{ Err error }

// Error returns the text of Err.
func (e *QueryError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *QueryError) Unwrap() error { return e.Err }

// Document returns a document by the query of a request. With a document and an
// error it returns what is known in spite of the error.
type Document func(ctx context.Context, c *client.Client, query url.Values) (any, error)

// Lines is a document of one JSON value a line.
type Lines iter.Seq2[any, error]

// document answers with what read returns.
func (g *Gateway) document(read Document) handler {
	return func(w http.ResponseWriter, r *http.Request, c *connected) {
		var found any
		query, err := readQuery(r)
		if err == nil {
			found, err = read(r.Context(), c.Client, query)
		}
		if wrong, ok := errors.AsType[*QueryError](err); ok {
			newProblem(http.StatusBadRequest, "bad-query", "%v", wrong).write(w)
			return
		}
		status := http.StatusOK
		if err != nil {
			problem := problemOf(err)
			if found == nil {
				problem.write(w)
				return
			}
			maps.Copy(w.Header(), problem.header)
			status = problem.Status
		}
		if lines, ok := found.(Lines); ok {
			g.writeLines(w, status, lines)
			return
		}
		g.writeJSON(w, status, found)
	}
}

// writeLines writes the lines with a status, each within limits.answer. An
// error after the first one ends the connection, so that the document does not
// look complete.
func (g *Gateway) writeLines(w http.ResponseWriter, status int, l Lines) {
	begun := false
	control := http.NewResponseController(w)
	encoder := json.NewEncoder(w)
	for line, err := range l {
		if err != nil && begun {
			panic(http.ErrAbortHandler)
		}
		if err != nil {
			problemOf(err).write(w)
			return
		}
		_ = control.SetWriteDeadline(time.Now().Add(g.limits.answer + g.limits.body))
		if !begun {
			beginLines(w, status)
		}
		begun = true
		if encoder.Encode(line) != nil {
			return // the client has gone
		}
	}
	if !begun {
		beginLines(w, status)
	}
}

func beginLines(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(status)
}

// listCooldowns answers GET /v1/cooldowns.
func (g *Gateway) listCooldowns(_ http.ResponseWriter, r *http.Request, c *connected) (any, error) {
	at, found, err := report.ListCooldowns(r.Context(), c.Guard(), c.Table().Accounts())
	return map[string]any{"at": at, "ledger": c.LedgerName(), "cooldowns": found}, err
}

// cooldownRequest is the body of POST and DELETE /v1/cooldowns. DELETE may have
// the account, the budget and the key in its query instead.
type cooldownRequest struct {
	Account string `json:"account"`
	Budget  string `json:"budget"`
	Key     string `json:"key"`
	For     span   `json:"for"`
	Until   end    `json:"until"`
	Reason  string `json:"reason"`
}

// end is a time or, in JSON as the text reset, the upstream's next reset. The
// zero value is neither.
type end struct {
	at      time.Time
	isReset bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *end) UnmarshalJSON(text []byte) error {
	if string(text) == `"reset"` {
		e.isReset = true
		return nil
	}
	if err := json.Unmarshal(text, &e.at); err != nil {
		return fmt.Errorf("%s is not a time: write one such as 2026-11-20T09:00:00Z, or reset",
			human.Shorten(string(text), 60))
	}
	return nil
}

// scope returns the account and the budget that are meant. The account may be
// left out if only one has the budget.
func (c *cooldownRequest) scope(table *costs.Table) (account, budget string, err error) {
	if c.Account == "" && c.Budget == "" {
		return "", "",
			errors.New(`name a budget, or for a whole account the account: {"budget": "NAME"} or {"account": "NAME"}`)
	}
	accounts, budgets := table.Accounts(), []string{}
	if c.Account != "" {
		if !slices.Contains(accounts, c.Account) {
			return "", "", fmt.Errorf("no account %q in costs.yaml; %s", c.Account,
				strictyaml.Advice(c.Account, accounts))
		}
		accounts = []string{c.Account}
	}
	if c.Budget != "" {
		var having []string // the accounts that have the budget
		for _, b := range table.Budgets() {
			if !slices.Contains(accounts, b.Account) {
				continue
			}
			budgets = append(budgets, b.Name)
			if b.Name == c.Budget {
				having = append(having, b.Account)
			}
		}
		accounts = having
	}
	switch len(accounts) {
	case 0:
		return "", "", fmt.Errorf("no budget %q in costs.yaml; %s", c.Budget, strictyaml.Advice(c.Budget, budgets))
	case 1:
		return accounts[0], c.Budget, nil
	}
	return "", "", fmt.Errorf("several accounts are meant; name one of %s", strings.Join(accounts, ", "))
}

// readCooldown reads the body of a request about cooldowns.
func (g *Gateway) readCooldown(w http.ResponseWriter, r *http.Request, c *connected) (asked cooldownRequest, account,
	budget string, err error) {
	if err := g.readJSON(w, r, &asked); err != nil {
		return asked, "", "", err
	}
	query := r.URL.Query() // empty but for DELETE; see routes
	asked.Account, asked.Budget = cmp.Or(query.Get("account"), asked.Account), cmp.Or(query.Get("budget"), asked.Budget)
	asked.Key = cmp.Or(query.Get("key"), asked.Key)
	if account, budget, err = asked.scope(c.Table()); err != nil {
		err = newProblem(http.StatusUnprocessableEntity, "bad-call", "%v", err)
	}
	return asked, account, budget, err
}

// setCooldown answers POST /v1/cooldowns.
func (g *Gateway) setCooldown(w http.ResponseWriter, r *http.Request, c *connected) (any, error) {
	asked, account, budget, err := g.readCooldown(w, r, c)
	if err != nil {
		return nil, err
	}
	if (asked.For > 0) == (asked.Until != end{}) {
		return nil,
			fmt.Errorf("%w: say how long by one of for and until: \"for\": \"10m\", \"until\": a time, or "+
				"\"until\": \"reset\"", quota.ErrBadCall)
	}
	wanted := quota.Cooldown{Account: account, Budget: budget, Key: asked.Key,
		Reason: cmp.Or(asked.Reason, "set through the gateway"), For: time.Duration(asked.For), Until: asked.Until.at}
	at, set, err := report.SetCooldown(r.Context(), c.Guard(), c.Table(), wanted)
	if past, isPast := errors.AsType[*report.UntilError](err); isPast {
		return nil, newProblem(http.StatusUnprocessableEntity, "bad-call", "%v", past)
	}
	if move, moves := errors.AsType[*report.MoveError](err); moves {
		return nil, newProblem(http.StatusConflict, "moved", "%v", move)
	}
	if _, isGone := errors.AsType[*report.GoneError](err); isGone {
		err = nil // the answer has none
	}
	return map[string]any{"at": at, "cooldown": set}, err
}

// liftCooldown answers DELETE /v1/cooldowns.
func (g *Gateway) liftCooldown(w http.ResponseWriter, r *http.Request, c *connected) (any, error) {
	asked, account, budget, err := g.readCooldown(w, r, c)
	if err != nil {
		return nil, err
	}
	_, cleared, err := report.ClearCooldown(r.Context(), c.Guard(), account, budget, asked.Key)
	if move, moves := errors.AsType[*report.MoveError](err); moves {
		return nil, newProblem(http.StatusConflict, "moved", "%v", move)
	}
	return cleared, err
}
