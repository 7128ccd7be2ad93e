//go:build linux || darwin

package sqliteledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// spendTwice spends a unit twice, and prints a line after each grant.
func spendTwice(l quota.Ledger) error {
	for range 2 {
		answers, err := l.Spend(context.Background(), one(1, shared))
		if err == nil {
			err = answers[0].Err
		}
		if err != nil {
			return err
		}
		fmt.Println(answers[0].Receipt.ID)
	}
	return nil
}

// spendAndReport spends until no unit is left, and prints a line after
// each grant.
func spendAndReport(l quota.Ledger, cost func(i int) quota.Units, charges ...*quota.Charge) error {
	for i := 0; ; i++ {
		units := cost(i)
		answers, err := l.Spend(context.Background(), one(units, charges...))
		switch {
		case err != nil:
			return err
		case answers[0].Err == nil:
			fmt.Println(units, answers[0].Receipt.ID)
		case !errors.Is(answers[0].Err, quota.ErrRefused):
			return answers[0].Err
		case units == 1:
			return nil
		}
	}
}

// spendUntilFull lets the file system refuse a write inside a COMMIT: it is
// unknown whether the spend was recorded, and a later spend finds a
// consistent state.
func spendUntilFull(l *sqliteledger.Ledger, path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	granted := quota.Units(0)
	spend := func() error {
		answers, err := l.Spend(context.Background(), one(1, shared))
		if err == nil {
			err = answers[0].Err
		}
		if err == nil {
			granted++
		}
		return err
	}
	if err := spend(); err != nil {
		return err
	}
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	narrow := limit
	narrow.Cur = uint64(info.Size()) + 40_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &narrow); err != nil {
		return err
	}
	for err == nil && granted < 1000 {
		err = spend()
	}
	if !errors.Is(err, quota.ErrInDoubt) || errors.Is(err, quota.ErrLedgerDown) {
		return fmt.Errorf("%w after %d grants; want ErrInDoubt", err, granted)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if err := spend(); err != nil {
		return err
	}
	s, err := l.Standings(context.Background(), "my-project", "", []*quota.Charge{shared})
	if err == nil && (s[0].Used < granted || s[0].Used > granted+1) {
		err = fmt.Errorf("%d recorded of %d granted and one in doubt", s[0].Used, granted)
	}
	return err
}
