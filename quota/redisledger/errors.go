package redisledger

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota"
)

// errGarbled is an answer that no script of ours gives.
var errGarbled = errors.New("an answer of an unknown shape; look for another program on these keys, or a proxy on the way")

// errForgets means that what the store says of itself changes faster than it can be asked.
var errForgets = errors.New("the store keeps forgetting; look for evictions or another program on these keys")

// outcome is what an error says about the command it answers.
type outcome uint8

const (
	unknown outcome = iota // it may have been executed
	busy                   // not executed; soon it may be
	down                   // not executed
	config                 // not executed until somebody mends something
)

// codes are how Redis' errors begin (seen on 7.0.15, 2026-11-20). What is not
// listed is a matter of configuration: commands that are unknown or not allowed.
// READONLY and NOREPLICAS come of a failover: the next try may find the new master.
var codes = map[string]outcome{
	"LOADING": busy, "BUSY": busy, "TRYAGAIN": busy, "CLUSTERDOWN": busy, "MASTERDOWN": busy, "READONLY": busy,
	"NOREPLICAS": busy, "UNKILLABLE": busy, "MISCONF": down, "OOM": down,
}

// unsentError wraps what kept a command from being sent, or executed where it was sent.
type unsentError struct{ error }

// Unwrap returns the cause.
func (e *unsentError) Unwrap() error { return e.error }

// judge says what an error of go-redis means. Only what is certain not to have
// been executed is called so.
func judge(err error) outcome {
	if _, ok := errors.AsType[*foreignError](err); ok {
		return config
	}
	if answer, ok := errors.AsType[redis.Error](err); ok {
		return judgeAnswer(answer.Error())
	}
	if secured(err) {
		return config
	}
	if errors.Is(err, redis.ErrClosed) {
		return down
	}
	if _, ok := errors.AsType[*unsentError](err); ok {
		return busy
	}
	// A command is executed when all of it has arrived, and of one whose write
	// failed the end did not even leave.
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "dial" || op.Op == "write") {
		return busy
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return busy
	}
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		return busy
	}
	return unknown
}

// judgeAnswer judges an error that the server sent. Redis before 7 wraps the
// errors of commands in a script: ERR Error running script (...): @user_script: 1: OOM ...
func judgeAnswer(text string) outcome {
	code, rest, _ := strings.Cut(text, " ")
	if found, ok := codes[code]; ok {
		return found
	}
	if tooManyClients(text) {
		return busy
	}
	if code == "ERR" && strings.Contains(rest, "@user_script") {
		for code, found := range codes {
			if strings.Contains(rest, " -"+code+" ") || strings.Contains(rest, " "+code+" ") {
				return found
			}
		}
	}
	return config
}

func tooManyClients(text string) bool { return strings.HasPrefix(text, "ERR max number of clients") }

// secured reports whether err is of a TLS handshake that cannot succeed.
func secured(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err) // how crypto/tls reports an alert
	return ok && (op.Op == "remote error" || op.Op == "local error")
}

// failed wraps what ended an operation: err, or before it an answer that was lost.
func (l *Ledger) failed(err error, found outcome, doubt bool) error {
	err = l.scrubbed(err)
	switch {
	case doubt:
		return fmt.Errorf("%w: redis at %s: %w; look at its load and the network", quota.ErrInDoubt, l.where, err)
	case found == config:
		return fmt.Errorf("%w: redis at %s: %w; %s", quota.ErrLedgerConfig, l.where, err, mend(err))
	}
	return fmt.Errorf("%w: redis at %s: %w; see that it is up and can be reached", quota.ErrLedgerDown, l.where, err)
}

// scrubbedError shows an error without the passwords that it repeats, as a
// server does that does not know HELLO or AUTH.
type scrubbedError struct {
	error
	text string
}

// Error returns the text without the passwords.
func (e *scrubbedError) Error() string { return e.text }

// Unwrap returns the error as it was.
func (e *scrubbedError) Unwrap() error { return e.error }

func (l *Ledger) scrubbed(err error) error {
	if l.address == nil {
		return err
	}
	text := err.Error()
	for _, secret := range []string{l.address.password, l.address.sentinelPassword} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[hidden]")
		}
	}
	if text == err.Error() {
		return err
	}
	return &scrubbedError{err, text}
}

// mend says what to do about an error of configuration.
func mend(err error) string {
	if foreign, ok := errors.AsType[*foreignError](err); ok {
		return foreign.fix
	}
	switch text := err.Error(); {
	case errors.Is(err, redis.Nil):
		return "the sentinels know no master of this name, check it"
	case strings.HasPrefix(text, "MOVED "), strings.HasPrefix(text, "ASK "):
		return "this server is one of a cluster, write redis+cluster:// instead of redis://"
	case strings.Contains(text, "cluster support disabled"):
		return "this server is not one of a cluster, write redis:// instead of redis+cluster://"
	case secured(err):
		return "check the CA, the client's certificate and the server's name, and that the server speaks TLS"
	}
	return "check the URL, the password and the user's rights"
}
