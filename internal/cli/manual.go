package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// WriteManual writes the pages of a command and of all below it. It creates the
// folder if needed.
func WriteManual(cmd *cobra.Command, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	if err := os.WriteFile(filepath.Join(folder, name+".1"), page(cmd), 0o644); err != nil {
		return err
	}
	for _, child := range Children(cmd) {
		if err := WriteManual(child, folder); err != nil {
			return err
		}
	}
	return nil
}

// Children returns the commands that have a page.
func Children(cmd *cobra.Command) (children []*cobra.Command) {
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			children = append(children, child)
		}
	}
	return children
}

// page returns a command's page as man(7) source. The texts keep their line
// breaks, because help wraps them already.
func page(cmd *cobra.Command) []byte {
	built := ReadBuild()
	date, _ := time.Parse(time.RFC3339, built.Date) // without a revision, no date
	text := &roff{}
	title := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	day := ""
	if !date.IsZero() {
		day = date.Format(time.DateOnly)
	}
	text.line(`.TH "%s" 1 "%s" "ration %s" "User Commands"`, strings.ToUpper(title), day, roffText(built.Version))
	text.line(".SH NAME\n%s \\- %s", roffText(title), roffText(lowerFirst(cmd.Short)))
	text.verbatim("SYNOPSIS", cmd.UseLine())
	text.verbatim("DESCRIPTION", cmp.Or(cmd.Long, cmd.Short))
	text.flags("OPTIONS", cmd.NonInheritedFlags())
	text.flags("OPTIONS OF EVERY COMMAND", cmd.InheritedFlags())
	text.verbatim("EXAMPLES", cmd.Example)
	var related []string
	if cmd.HasParent() {
		related = append(related, cmd.Parent().CommandPath())
	}
	for _, child := range Children(cmd) {
		related = append(related, child.CommandPath())
	}
	for i, path := range related {
		related[i] = `\fB` + roffText(strings.ReplaceAll(path, " ", "-")) + `\fR(1)`
	}
	text.line(".SH SEE ALSO\n%s", strings.Join(related, ",\n"))
	return text.Bytes()
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// roff is man(7) source.
type roff struct{ bytes.Buffer }

func (r *roff) line(format string, args ...any) { fmt.Fprintf(r, format+"\n", args...) }

// verbatim adds a section whose lines are kept, unless it is empty.
func (r *roff) verbatim(section, text string) {
	if text != "" {
		r.line(".SH %s\n.nf\n%s\n.fi", section, roffText(text))
	}
}

// zeroValues are the defaults of flags that the page does not show.
var zeroValues = []string{"", "false", "0", "0s", "[]"}

// flags adds a section with a paragraph for each flag, unless there is none.
func (r *roff) flags(section string, flags *pflag.FlagSet) {
	head := ".SH " + section + "\n"
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := `\fB` + roffText("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			name = `\fB` + roffText("-"+f.Shorthand) + `\fR, ` + name
		}
		if value != "" {
			name += ` \fI` + roffText(value) + `\fR`
		}
		if !slices.Contains(zeroValues, f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		r.line("%s.TP\n%s\n%s", head, name, roffText(usage))
		head = ""
	})
}

// roffText escapes what roff would interpret.
func roffText(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(s)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
