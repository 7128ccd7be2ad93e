package quota

import (
	"encoding/base64"
	"encoding/binary"
	"time"
)

// tokenVersion begins each token.
const tokenVersion = 1

// Token returns a text by which any process that uses the ledger can settle or
// refund the grant: see Guard.Redeem. It is made of letters, digits, - and _,
// and is no secret. It is "" for a nil Grant.
func (g *Grant) Token() string {
	if g == nil {
		return ""
	}
	call := g.Call()
	packed := []byte{tokenVersion}
	for _, n := range []uint64{g.id.Client, g.id.Seq, uint64(g.at.UnixMicro()), g.epoch, uint64(call.Units)} {
		packed = binary.AppendUvarint(packed, n)
	}
	for _, text := range []string{call.Account, call.Key, call.Method, call.Caller.Lane, call.Caller.Job,
		call.Caller.Region} {
		packed = binary.AppendUvarint(packed, uint64(len(text)))
		packed = append(packed, text...)
	}
	return base64.RawURLEncoding.EncodeToString(append(packed, g.claim...))
}

// Redeem returns the grant that a token came from, which may have been another
// process's. The Grant has no Balances, and its Call has the units of the time
// when the token was taken. Redeem does not look the grant up, so Settle and
// Refund are no-ops if the ledger does not hold it. It returns ErrBadToken for
// any other text.
func (g *Guard) Redeem(token string) (*Grant, error) {
	packed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(packed) == 0 || packed[0] != tokenVersion {
		return nil, ErrBadToken
	}
	read := tokenReader{packed[1:], true}
	grant := &Grant{guard: g, id: ID{Client: read.number(), Seq: read.number()}, redeemed: true, isOpen: true}
	grant.at = time.UnixMicro(int64(read.number())).UTC()
	grant.epoch = read.number()
	units := Units(read.number())
	call := Call{Account: read.text(), Key: read.text(), Method: read.text(), Units: units}
	call.Caller = Caller{Lane: read.text(), Job: read.text(), Region: read.text()}
	if len(read.rest) > 0 {
		grant.trial = read.claim(g, call.Account)
		grant.claim = packClaim(grant.trial)
	}
	isWhole := read.ok && len(read.rest) == 0
	if request := (&request{Call: call, force: true}); !isWhole || request.check() != nil {
		return nil, ErrBadToken
	}
	grant.set, grant.job = g.chargesFor(&call), call.Caller.Job
	grant.key, grant.units = call.Key, units
	if grant.Token() != token { // another spelling of it
		return nil, ErrBadToken
	}
	return grant, nil
}

// tokenReader reads a token. ok becomes false if it is too short.
type tokenReader struct {
	rest []byte
	ok   bool
}

func (t *tokenReader) number() uint64 {
	n, size := binary.Uvarint(t.rest)
	if size <= 0 {
		t.rest, t.ok = nil, false
		return 0
	}
	t.rest = t.rest[size:]
	return n
}

func (t *tokenReader) text() string {
	n := t.number()
	if n > uint64(len(t.rest)) {
		t.rest, t.ok = nil, false
		return ""
	}
	text := string(t.rest[:n])
	t.rest = t.rest[n:]
	return text
}
