package redisledger

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/engine"
)

// errorClass says whether a command that failed with an error was executed.
type errorClass uint8

const (
	unknown errorClass = iota // it may have been executed
	busy                      // not executed, but a retry may succeed soon
	down                      // not executed
	config                    // not executed until the configuration is corrected
)

// knownErrors are texts of errors with what they mean and what to do about them
// (seen on Redis 7.0.15, 2026-11-20). A text of capitals is a code, see
// hasCode. Other errors of a server are config: unknown or forbidden commands.
// READONLY and NOREPLICAS happen in a failover: the next try may find the new
// master.
var knownErrors = [...]struct {
	text   string
	class  errorClass
	advice string
}{
	{"LOADING", busy, "it is reading its data: try again in a moment"},
	{"BUSY", busy, "another client's script keeps it busy: wait, or end it with SCRIPT KILL"},
	{"UNKILLABLE", busy, "another client's script keeps it busy: wait for it"},
	{"TRYAGAIN", busy, "slots of the cluster are being moved: try again in a moment"},
	{"CLUSTERDOWN", busy, "some slots of the cluster have no master: see that all of its nodes are up"},
	{"MASTERDOWN", busy, "it is a replica whose master is gone: see that the master is up"},
	{"READONLY", busy, "it is a replica: name the master, or its sentinels"},
	{"NOREPLICAS", busy, "too few of its replicas are connected: see that they are up"},
	{"max number of clients", busy, "close some of its clients, or raise its maxclients"},
	{"MISCONF", down, "it cannot save its data: free some space on its disk, its log says why"},
	{"OOM", down, "its memory is full: raise its maxmemory, or remove what else it holds"},
	{"client is closed", down, "open the ledger again"},
	{"NOAUTH", config, "it wants a password, and the user if it is not the default one"},
	{"unauthenticated", config, "it wants a password, and the user if it is not the default one"},
	{"DENIED", config, "it is in protected mode: set a password there, and give it here"},
	{"WRONGTYPE", config, "another program writes these keys; choose another prefix, or remove what it wrote"},
	{"MOVED", config, "this server is one of a cluster, write redis+cluster:// instead of redis://"},
	{"ASK", config, "this server is one of a cluster, write redis+cluster:// instead of redis://"},
	{"cluster support disabled", config, "this server is not of a cluster, write redis:// instead of redis+cluster://"},
	{"DB index is out of range", config,
		"this server has fewer databases; name a lower one after the last / of the URL"},
	{"unknown command 'sentinel", config, "this server is not a sentinel: name the sentinels, or write redis://"},
	{"unknown command 'eval", config, "this server runs no scripts: if it is a sentinel, write redis+sentinel://"},
	{"unreachable: redis: nil", config, "the sentinels know no master of this name; check it"},
	{"redis: can't parse", config, "it is not a Redis server: check the host and the port, and whether it speaks TLS"},
	{string(errOld), config, "copy it into a new log with ration ledger copy, or choose another prefix"},
	{string(errFull), config, "start a new log with ration ledger accept --loss, and see that the clock is right"},
}

// lookUp returns what knownErrors has for an error. Without an entry the advice
// is empty.
func lookUp(err error) (class errorClass, advice string) {
	text := err.Error()
	if answer, ok := errors.AsType[redis.Error](err); ok {
		text = answer.Error()
	}
	folded := strings.NewReplacer("`", "'", "EVAL", "eval").Replace(err.Error())
	for _, known := range &knownErrors {
		isCode := strings.ToUpper(known.text) == known.text
		isKnown := strings.Contains(folded, known.text)
		if isCode {
			isKnown = hasCode(text, known.text)
		}
		if isKnown {
			return known.class, known.advice
		}
	}
	if isTLSFailure(err) {
		return config, "check the CA, the client's certificate and the server's name, and that the server speaks TLS"
	}
	return config, ""
}

// unsentError wraps the cause why a command was not sent, or not executed.
type unsentError struct{ error }

// Unwrap returns the cause.
func (e *unsentError) Unwrap() error { return e.error }

// classify returns the class of an error of go-redis: unknown unless the
// command was certainly not executed.
func classify(err error) errorClass {
	_, unsent := errors.AsType[*unsentError](err)
	_, answered := errors.AsType[redis.Error](err)
	op, isOp := errors.AsType[*net.OpError](err)
	class, advice := lookUp(err)
	switch {
	case errors.Is(err, redis.Nil) && !unsent, errors.Is(err, errMalformed): // the script never answers that
		return unknown
	case answered, unsent && advice != "", isTLSFailure(err), errors.Is(err, redis.ErrClosed):
		return class
	case unsent, errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return busy
	case isOp && (op.Op == "dial" || op.Op == "write"):
		// The server executes a command only when it has all of it. If a write
		// fails, the end of the command was not sent.
		return busy
	}
	return unknown
}

// isTLSFailure reports whether err comes from a TLS handshake that
// cannot succeed.
func isTLSFailure(err error) bool {
	_, isVerification := errors.AsType[*tls.CertificateVerificationError](err)
	_, isAuthority := errors.AsType[x509.UnknownAuthorityError](err)
	_, isHeader := errors.AsType[tls.RecordHeaderError](err)
	op, isOp := errors.AsType[*net.OpError](err) // how crypto/tls reports an alert
	isAlert := isOp && (op.Op == "remote error" || op.Op == "local error")
	isCertificate := isVerification || isAuthority
	return isCertificate || isHeader || isAlert
}

// failed wraps the error that ended an operation. If doubt is set, an append
// may have been executed.
func (l *Ledger) failed(err error, found errorClass, doubt bool) error {
	kind, otherwise := engine.ErrLedgerDown, "see that it is up and can be reached, and whether it speaks TLS"
	switch {
	case doubt:
		kind, otherwise = engine.ErrInDoubt, "look at its load and the network"
	case errors.Is(err, redis.ErrClosed):
		kind = engine.ErrLedgerClosed
	case found == config:
		kind, otherwise = engine.ErrLedgerConfig, "check the URL, the password and the user's rights"
	}
	_, advice := lookUp(err)
	if errors.Is(kind, engine.ErrLedgerDown) {
		return &engine.DownError{Where: "redis at " + l.where, Err: l.scrubbed(err),
			Step: cmp.Or(advice, otherwise), Common: advice == ""}
	}
	return fmt.Errorf("%w: redis at %s: %w; %s", kind, l.where, l.scrubbed(err), cmp.Or(advice, otherwise))
}

// scrubbed returns err, or its text with the address's passwords hidden. A
// server that does not know HELLO or AUTH repeats their arguments.
func (l *Ledger) scrubbed(err error) error {
	if l.address == nil {
		return err
	}
	text := err.Error()
	for _, secret := range []string{l.address.Password, l.address.SentinelPassword} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[hidden]")
		}
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// hasCode reports whether the text of an error has a code: first, or within the
// text that Redis before 7 puts around the errors of a script's commands:
// ERR Error running script (...): @user_script: 1: OOM ...
func hasCode(text, code string) bool {
	if first, rest, _ := strings.Cut(text, " "); first != "ERR" || !strings.Contains(rest, "@user_script") {
		return first == code
	}
	return strings.Contains(text, " -"+code+" ") || strings.Contains(text, " "+code+" ")
}
