package redisledger

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota"
)

// Accounts implements quota.Ledger. It scans all keys of all servers, a
// thousand at a time.
func (l *Ledger) Accounts(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		clients, err := l.nodes(ctx)
		nodes := make([]redis.Cmdable, len(clients))
		for i, client := range clients {
			nodes[i] = client
		}
		if errors.Is(err, quota.ErrLedgerConfig) { // a client of another kind, which may be of one server
			nodes, err = []redis.Cmdable{l.client}, nil
		}
		if err != nil {
			yield("", ended(ctx, l.failed(err, classify(err), false)))
			return
		}
		l.scan(ctx, nodes, l.prefix+":{*}:????", l.accountsOf)(yield)
	}
}

// accountsOf returns the accounts with Redis keys, without those that need not
// be there for the account to be.
func (l *Ledger) accountsOf(_ context.Context, _ redis.Cmdable, names []string) (accounts []string, _ error) {
	for _, name := range names {
		account, of, _ := strings.Cut(strings.TrimPrefix(name, l.prefix+":{"), "}:")
		if of == "meta" || of == "cool" {
			accounts = append(accounts, unescape(account))
		}
	}
	return accounts, nil
}
