package postgresledger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ration-dev/ration/internal/engine"
)

// binary is the format of all parameters and results.
var binary = []int16{pgtype.BinaryFormatCode}

// call calls append_1 or read_1. If the schema was dropped, it creates it
// again.
func (l *Ledger) call(ctx context.Context, function string, arguments []any, writes bool) (*engine.Tail, error) {
	places := make([]string, len(arguments))
	for i := range places {
		places[i] = fmt.Sprintf("$%d", i+1)
	}
	query := fmt.Sprintf("SELECT %s.%s(%s)", l.schema, function, strings.Join(places, ", "))
	bounded, cancel := context.WithTimeoutCause(ctx, maxWait, errSlow)
	defer cancel()
	var tail *engine.Tail
	run := func() (sent bool, err error) {
		return l.query(bounded, query, arguments, func(row []byte, types *pgtype.Map) (err error) {
			tail, err = decodeTail(row, types)
			return err
		})
	}
	sent, err := run()
	for range maxRetries {
		switch {
		case isConflict(err):
			l.isolates.Store(true)
		case isDropped(err):
			if err := l.setUp(bounded); err != nil {
				return nil, err
			}
		}
		if !isConflict(err) && !isDropped(err) {
			break
		}
		sent, err = run()
	}
	if err != nil {
		return nil, l.explain(ctx, err, sent && writes)
	}
	return tail, nil
}

// maxRetries is how often a call is repeated after an error that says that
// nothing was appended, and whose cause has been removed.
const maxRetries = 3

// query runs a statement that is not prepared, in one round trip, and calls f
// with the only column of each row, which f must not retain. If it fails, sent
// says whether the statement may have been executed.
func (l *Ledger) query(
	ctx context.Context, text string, arguments []any, f func([]byte, *pgtype.Map) error,
) (sent bool, err error) {
	switch {
	case l.closed.Load():
		return false, errClosed
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	}
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	types := conn.Conn().TypeMap()
	values := make([][]byte, len(arguments))
	for i, argument := range arguments {
		if values[i], err = encode(types, argument); err != nil {
			return false, err
		}
	}
	batch := &pgconn.Batch{}
	isolates := l.isolates.Load()
	if isolates {
		batch.ExecParams("BEGIN ISOLATION LEVEL READ COMMITTED", nil, nil, nil, nil)
	}
	batch.ExecParams(text, values, nil, binary, binary)
	if isolates {
		batch.ExecParams("COMMIT", nil, nil, nil, nil)
	}
	var failed error
	results := conn.Conn().PgConn().ExecBatch(ctx, batch)
	for results.NextResult() {
		result := results.ResultReader()
		for result.NextRow() {
			failed = errors.Join(failed, f(result.Values()[0], types))
		}
	}
	if err := results.Close(); err != nil { // it has read all, up to the end of the transaction
		return !pgconn.SafeToRetry(err) && !isRolledBack(err), err
	}
	return true, failed
}

// encode returns a parameter in the binary format.
func encode(types *pgtype.Map, argument any) ([]byte, error) {
	switch argument := argument.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(argument), nil
	case []byte:
		return argument, nil
	case bool:
		return types.Encode(pgtype.BoolOID, pgtype.BinaryFormatCode, argument, nil)
	case int64:
		return types.Encode(pgtype.Int8OID, pgtype.BinaryFormatCode, argument, nil)
	}
	return types.Encode(pgtype.Int8ArrayOID, pgtype.BinaryFormatCode, argument, nil)
}

// decodeTail returns what append_1 or read_1 says. Their result is one column,
// a record in the binary format, since that of four columns takes longer to
// plan.
func decodeTail(record []byte, types *pgtype.Map) (*engine.Tail, error) {
	var answer, positions, times []int64
	var data [][]byte
	fields := pgtype.NewCompositeBinaryScanner(types, record)
	for _, into := range []any{&answer, &positions, &times, &data} {
		if !fields.Next() {
			return nil, fmt.Errorf("a record of too few fields: %w", fields.Err())
		}
		if err := types.Scan(fields.OID(), pgtype.BinaryFormatCode, fields.Bytes(), into); err != nil {
			return nil, err
		}
	}
	const head = 10 // before the totals
	isHead := len(answer) >= head && len(answer) <= head+engine.MaxTotals
	if !isHead || len(positions) != len(times) || len(positions) != len(data) {
		return nil, fmt.Errorf("a head of %d, and %d positions, %d times and %d batches",
			len(answer), len(positions), len(times), len(data))
	}
	tail := &engine.Tail{
		Appended: answer[0] != 0, At: answer[1], Diverged: answer[2] != 0,
		Epoch: uint64(answer[3]), Position: uint64(answer[4]), First: uint64(answer[5]) + 1,
		Newest: answer[6], Gen: uint64(answer[7]), Now: answer[8], More: answer[9] != 0,
	}
	copy(tail.Totals[:], answer[head:])
	for i, position := range positions {
		tail.Batches = append(tail.Batches, engine.Batch{Position: uint64(position), At: times[i], Data: data[i]})
	}
	return tail, nil
}
