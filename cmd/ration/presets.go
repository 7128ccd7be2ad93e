package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/strictyaml"
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
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			presets := costs.Presets()
			if len(args) == 0 {
				return a.presetList(presets)
			}
			preset, names := costs.FindPreset(args[0])
			if preset != nil {
				return a.presetText(preset)
			}
			if len(names) == 0 {
				for _, p := range presets {
					names = append(names, p.Name)
				}
			}
			return &cli.Error{Err: fmt.Errorf("no preset %q; %s", args[0], strictyaml.Advice(args[0], names))}
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
