package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand is hidden because only those who package ration need it.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write a manual page for each command",
		Long:    "Man writes a manual page for each command into a folder, which must exist.\n\n" + exitCodes(),
		Example: "  ration man /usr/local/share/man/man1\n  ration man --help",
		Hidden:  true,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return writeManual(cmd.Root(), args[0]) },
	}
}

// writeManual writes the pages of a command and of all below it.
func writeManual(cmd *cobra.Command, folder string) error {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	if err := os.WriteFile(filepath.Join(folder, name+".1"), manualPage(cmd), 0o644); err != nil {
		return err
	}
	for _, child := range manualChildren(cmd) {
		if err := writeManual(child, folder); err != nil {
			return err
		}
	}
	return nil
}

func manualChildren(cmd *cobra.Command) (children []*cobra.Command) {
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			children = append(children, child)
		}
	}
	return children
}

// manualPage returns a command's page as man(7) source. The texts keep their line
// breaks, because help wraps them already.
func manualPage(cmd *cobra.Command) []byte {
	build := readBuild()
	date, _ := time.Parse(time.RFC3339, build.Date) // without a revision, no date
	page := &roff{}
	title := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	day := ""
	if !date.IsZero() {
		day = date.Format(time.DateOnly)
	}
	page.line(`.TH "%s" 1 "%s" "ration %s" "User Commands"`, strings.ToUpper(title), day, roffText(build.Version))
	page.line(".SH NAME\n%s \\- %s", roffText(title), roffText(lowerFirst(cmd.Short)))
	page.verbatim("SYNOPSIS", cmd.UseLine())
	page.verbatim("DESCRIPTION", cmp.Or(cmd.Long, cmd.Short))
	page.flags("OPTIONS", cmd.NonInheritedFlags())
	page.flags("OPTIONS OF EVERY COMMAND", cmd.InheritedFlags())
	page.verbatim("EXAMPLES", cmd.Example)
	var related []string
	if cmd.HasParent() {
		related = append(related, cmd.Parent().CommandPath())
	}
	for _, child := range manualChildren(cmd) {
		related = append(related, child.CommandPath())
	}
	for i, path := range related {
		related[i] = `\fB` + roffText(strings.ReplaceAll(path, " ", "-")) + `\fR(1)`
	}
	page.line(".SH SEE ALSO\n%s", strings.Join(related, ",\n"))
	return page.Bytes()
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
		if given := f.DefValue; given != "" && given != "false" && given != "0" && given != "0s" && given != "[]" {
			usage += " (default " + given + ")"
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
