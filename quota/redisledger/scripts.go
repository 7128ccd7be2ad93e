package redisledger

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed lua
var luaFiles embed.FS

// script is a Lua script. Its text is constant; data travels in KEYS and ARGV.
type script struct {
	text, sha string
	writes    bool // a lost answer leaves it unknown whether units were spent
}

// Each script is one text, put together from the files of lua; layout.lua says
// how they fit.
var (
	baseLua = mainText("layout") + moduleText("lists") + mainText("records") + moduleText("counters") +
		mainText("windows") + moduleText("accounts") + moduleText("coverages")

	learnScript     = newScript(baseLua+moduleText("limits")+mainText("learn"), false)
	spendScript     = newScript(baseLua+moduleText("sources")+moduleText("floors")+moduleText("refusals")+moduleText("resent")+mainText("spend"), true)
	settleScript    = newScript(baseLua+mainText("settle"), true)
	standingsScript = newScript(baseLua+mainText("standings"), false)
	entriesScript   = newScript(baseLua+mainText("entries"), false)
	restampScript   = newScript(baseLua+mainText("restamp"), true)
	snapshotScript  = newScript(mainText("snapshot"), false)
	restoreScript   = newScript(baseLua+mainText("restore"), true)
	cooldownScript  = newScript(baseLua+mainText("cooldown"), true)
	recoolScript    = newScript(baseLua+mainText("recool"), true)
	relimitScript   = newScript(baseLua+mainText("relimit"), true)
)

// mainText returns a file that runs whenever its script runs.
func mainText(name string) string {
	text, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the file is embedded
	}
	return string(text)
}

// moduleText wraps a file in a Lua function of its name. The first call runs
// the file; every call returns what the file returned.
func moduleText(name string) string {
	return strings.NewReplacer("NAME", name, "TEXT", mainText(name)).Replace(
		"local NAME_made\nlocal function NAME()\n  NAME_made = NAME_made or (function()\nTEXT\nend)()\n  return NAME_made\nend\n")
}

func newScript(text string, writes bool) script {
	sum := sha1.Sum([]byte(text)) // EVALSHA names a script by it
	return script{text: text, sha: hex.EncodeToString(sum[:]), writes: writes}
}
