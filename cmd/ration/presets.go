package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/cmd/ration/internal/terminal"
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/costs/strictyaml"
	"github.com/ration-dev/ration/quota"
)

func (a *app) presetsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "presets [NAME]",
		Short: "List the presets that ship with ration, or print one",
		Long: `Presets lists the tables that preset: in costs.yaml can name: what each is for,
when its figures were read, and its variants. Given a name, it prints that table
as it is written, with its sources and what they leave open.

` + exitCodes(),
		Example: "  ration costs presets\n  ration costs presets youtube/2026-06",
		Args:    usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			presets := costs.Presets()
			if len(args) == 0 {
				return a.presetList(presets)
			}
			var names []string
			for i := range presets {
				if p := &presets[i]; p.Name == args[0] {
					return a.presetText(p)
				}
				names = append(names, presets[i].Name)
			}
			return &usageError{fmt.Errorf("no preset %q; %s", args[0], terminal.Advice(args[0], names))}
		},
	}
}

func (a *app) presetList(presets []costs.Preset) error {
	if a.json {
		return json.NewEncoder(a.stdout).Encode(map[string]any{"presets": presets})
	}
	t := a.table("preset", "read", "superseded by", "variants", "for")
	for _, p := range presets {
		superseded, variants := "", []string(nil)
		if p.SupersededBy != nil {
			superseded = *p.SupersededBy
		}
		for _, v := range p.Variants {
			variants = append(variants, v.Name)
		}
		t.Row(p.Name, p.Date, dash(superseded), dash(strings.Join(variants, ", ")), p.About)
	}
	t.Print()
	return nil
}

func (a *app) presetText(p *costs.Preset) error {
	if a.json {
		return json.NewEncoder(a.stdout).Encode(struct {
			*costs.Preset
			YAML string `json:"yaml"`
		}{p, p.YAML()})
	}
	_, err := io.WriteString(a.stdout, p.YAML())
	return err
}

// examinePresets warns of presets whose figures are old, and of lanes and
// regions in budgets that nobody seems to call for.
func (a *app) examinePresets(c *checkup, table *costs.Table) {
	for _, u := range table.Upstreams() {
		p := u.Preset
		if p == nil {
			continue
		}
		switch old := a.now().After(p.Date.AddDate(1, 0, 0)); {
		case p.SupersededBy != nil:
			c.found(warning, fmt.Sprintf("write preset: %s in costs.yaml; ration costs shows what that changes", *p.SupersededBy),
				"preset %s is superseded by %s", p.Name, *p.SupersededBy)
		case old:
			c.found(warning, fmt.Sprintf("check them against %s, write in costs.yaml what changed, or take a newer ration", p.Sources[0].Document),
				"preset %s has figures of %s, over a year ago", p.Name, p.Date)
		default:
			c.found(fine, "", "preset %s of %s", p.Name, p.Date)
		}
	}
}

// lanes returns the lanes that ration itself uses.
func lanes() []string { return []string{quota.LaneCron, quota.LaneBackfill, quota.LaneManual} }

// examineCoverage warns of lanes and regions in budgets that look misspelt:
// such a budget covers nothing, in silence.
func examineCoverage(c *checkup, budgets []quota.Budget, regions []string) {
	for _, b := range budgets {
		for _, lane := range b.Lanes {
			if near := strictyaml.Nearest(lane, lanes()); near != "" && !slices.Contains(lanes(), lane) {
				c.found(warning, fmt.Sprintf("write %s in costs.yaml, if that is meant", near), "budget %s covers lane %s, which is almost %s", human.Name(b.Name), human.Name(lane), near)
			}
		}
		named := slices.AppendSeq(slices.Clone(b.Regions), maps.Keys(b.Floor))
		slices.Sort(named)
		for _, region := range slices.Compact(named) {
			if !slices.Contains(regions, region) {
				c.found(warning, "add it to regions.yaml, or remove it from costs.yaml, unless other programs call for it", "budget %s names region %s, which regions.yaml does not have", human.Name(b.Name), region)
			}
		}
	}
}
