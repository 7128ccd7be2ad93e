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

// errMalformed reports an answer that none of the scripts gives.
var errMalformed = errors.New("malformed answer; look for another program that writes these keys, or a proxy before the server")

// errUnstable reports that the server's metadata changed during every try.
var errUnstable = errors.New("the server keeps losing keys; look for evictions or another program that writes these keys")

// errorClass says whether a command that failed with an error was executed.
type errorClass uint8

const (
	unknown errorClass = iota // it may have been executed
	busy                      // not executed, but a retry may succeed soon
	down                      // not executed
	config                    // not executed until the configuration is corrected
)

// codes are the first words of Redis errors, with their classes (seen on
// 7.0.15, 2026-11-20). Other codes are config: unknown or forbidden commands.
// READONLY and NOREPLICAS happen in a failover, and the next try may find the
// new master.
var codes = map[string]errorClass{
	"LOADING": busy, "BUSY": busy, "TRYAGAIN": busy, "CLUSTERDOWN": busy, "MASTERDOWN": busy, "READONLY": busy,
	"NOREPLICAS": busy, "UNKILLABLE": busy, "MISCONF": down, "OOM": down,
}

// unsentError wraps the cause why a command was not sent, or not executed.
type unsentError struct{ error }

// Unwrap returns the cause.
func (e *unsentError) Unwrap() error { return e.error }

// classify returns the class of an error of go-redis: unknown unless the
// command was certainly not executed.
func classify(err error) errorClass {
	if _, ok := errors.AsType[*foreignError](err); ok {
		return config
	}
	if answer, ok := errors.AsType[redis.Error](err); ok {
		return classifyAnswer(answer.Error())
	}
	if isTLSFailure(err) {
		return config
	}
	if errors.Is(err, redis.ErrClosed) {
		return down
	}
	if _, ok := errors.AsType[*unsentError](err); ok {
		return busy
	}
	// The server executes a command only when it has all of it. If a write
	// fails, the end of the command was not sent.
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

// classifyAnswer returns the class of an error that the server sent. Redis
// before 7 wraps the errors of commands in a script:
// ERR Error running script (...): @user_script: 1: OOM ...
func classifyAnswer(text string) errorClass {
	if tooManyClients(text) {
		return busy
	}
	for code, found := range codes {
		if hasCode(text, code) {
			return found
		}
	}
	return config
}

func tooManyClients(text string) bool { return strings.HasPrefix(text, "ERR max number of clients") }

// isTLSFailure reports whether err comes from a TLS handshake that
// cannot succeed.
func isTLSFailure(err error) bool {
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

// failed wraps the error that ended an operation. In doubt means that the
// answer of an earlier try was lost.
func (l *Ledger) failed(err error, found errorClass, doubt bool) error {
	err = l.scrubbed(err)
	switch {
	case doubt:
		if errors.Is(err, quota.ErrLedgerDown) { // which would say that nothing was charged
			err = errors.New(err.Error())
		}
		advice := "look at its load and the network"
		if errors.Is(err, errReplicas) {
			advice = "see that its replicas are up and keep up with it"
		}
		return fmt.Errorf("%w: redis at %s: %w; %s", quota.ErrInDoubt, l.where, err, advice)
	case errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: redis at %s: this process has closed it; open it again", quota.ErrLedgerClosed, l.where)
	case found == config:
		return fmt.Errorf("%w: redis at %s: %w; %s", quota.ErrLedgerConfig, l.where, err, l.advice(err))
	}
	return &downError{l.where, err}
}

// downError is a quota.ErrLedgerDown.
type downError struct {
	where string
	err   error
}

// Error says what failed and what to do.
func (e *downError) Error() string {
	return fmt.Sprintf("%v: redis at %s: %v; %s", quota.ErrLedgerDown, e.where, e.err, repair(e.err))
}

// Short says why the server could not be reached and, if its answer says more,
// what to do.
func (e *downError) Short() string {
	text := fmt.Sprintf("redis at %s: %v", e.where, e.err)
	if step := repair(e.err); step != seeThatItIsUp {
		text += "; " + step
	}
	return text
}

// Unwrap returns quota.ErrLedgerDown and the original error.
func (e *downError) Unwrap() []error { return []error{quota.ErrLedgerDown, e.err} }

// scrubbedError hides the passwords in the text of an error. A server that does
// not know HELLO or AUTH repeats their arguments.
type scrubbedError struct {
	error
	text string
}

// Error returns the text without the passwords.
func (e *scrubbedError) Error() string { return e.text }

// Unwrap returns the original error.
func (e *scrubbedError) Unwrap() error { return e.error }

// scrubbed returns err with the address's passwords hidden.
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

// repairs say what to do about errors of a server that is up, by their
// first words.
var repairs = map[string]string{
	"OOM":         "its memory is full: raise its maxmemory, or remove what else it holds",
	"MISCONF":     "it cannot save its data: free some space on its disk, its log says why",
	"READONLY":    "it is a replica: name the master, or its sentinels",
	"NOREPLICAS":  "too few of its replicas are connected: see that they are up",
	"MASTERDOWN":  "it is a replica whose master is gone: see that the master is up",
	"CLUSTERDOWN": "some slots of the cluster have no master: see that all of its nodes are up",
	"LOADING":     "it is reading its data: try again in a moment",
	"BUSY":        "another client's script keeps it busy: wait, or end it with SCRIPT KILL",
	"UNKILLABLE":  "another client's script keeps it busy: wait for it",
}

const seeThatItIsUp = "see that it is up and can be reached"

// repair returns what to do about a server that did not execute a command.
func repair(err error) string {
	text := err.Error()
	if answer, ok := errors.AsType[redis.Error](err); ok {
		text = answer.Error()
	}
	if tooManyClients(text) {
		return "close some of its clients, or raise its maxclients"
	}
	for code, step := range repairs {
		if hasCode(text, code) {
			return step
		}
	}
	return seeThatItIsUp
}

// hasCode reports whether the text of an error has a code: first, or within the
// text that Redis before 7 puts around the errors of a script's commands.
func hasCode(text, code string) bool {
	if first, rest, _ := strings.Cut(text, " "); first != "ERR" || !strings.Contains(rest, "@user_script") {
		return first == code
	}
	return strings.Contains(text, " -"+code+" ") || strings.Contains(text, " "+code+" ")
}

// unknownCommand returns the command that a server does not know, in lower
// case, or "" if that is not what the text of its error says.
func unknownCommand(text string) string {
	_, name, _ := strings.Cut(text, "unknown command ")
	name, _, _ = strings.Cut(name, ",")
	return strings.ToLower(strings.Trim(name, "'`"))
}

// advice returns what to do about a configuration error.
func (l *Ledger) advice(err error) string {
	if foreign, ok := errors.AsType[*foreignError](err); ok {
		return foreign.fix
	}
	switch text := err.Error(); {
	case errors.Is(err, redis.Nil) && l.address != nil && l.address.kind == sentinels:
		return "the sentinels know no master of this name; check it"
	case errors.Is(err, redis.Nil):
		return "malformed answer; look for a proxy before the server, or another program that writes these keys"
	case hasCode(text, "NOAUTH"), strings.Contains(text, "unauthenticated"): // the second before it reads a long command
		return "it wants a password, and the user if it is not the default one"
	case hasCode(text, "WRONGTYPE"):
		return "another program writes these keys; choose another prefix, or remove what it wrote"
	case strings.HasPrefix(text, "MOVED "), strings.HasPrefix(text, "ASK "):
		return "this server is one of a cluster, write redis+cluster:// instead of redis://"
	case strings.Contains(text, "cluster support disabled"):
		return "this server is not one of a cluster, write redis:// instead of redis+cluster://"
	case strings.Contains(text, "DB index is out of range"):
		return "this server has fewer databases; name a lower one after the last / of the URL"
	case unknownCommand(text) == "sentinel":
		return "this server is not a sentinel, name the sentinels, or write redis:// for a single server"
	case unknownCommand(text) == "eval", unknownCommand(text) == "evalsha":
		return "this server runs no scripts: if it is a sentinel, write redis+sentinel:// and the master's name"
	case isTLSFailure(err):
		return "check the CA, the client's certificate and the server's name, and that the server speaks TLS"
	}
	return "check the URL, the password and the user's rights"
}
