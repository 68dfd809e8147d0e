package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/obs"
)

// declared returns the metrics that a service declares. It reads the calls that make them,
// so it finds metrics whose series appear late, too.
func declared(root, service string) ([]metric, error) {
	r := &reader{prefix: "penstock_" + service + "_"}
	err := filepath.WalkDir(filepath.Join(root, service), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return r.folder(path)
	})
	return r.found, err
}

// reader collects declarations.
type reader struct {
	prefix string
	found  []metric
	// constants are the constants of the package that is being read.
	constants map[string]ast.Expr
	err       error
}

func (r *reader) folder(path string) error {
	names, err := filepath.Glob(filepath.Join(path, "*.go"))
	if err != nil {
		return err
	}
	var files []*ast.File
	r.constants = make(map[string]ast.Expr)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
				for i, name := range spec.Names {
					r.constants[name.Name] = spec.Values[i]
				}
			}
			return true
		})
		files = append(files, file)
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				r.call(call)
			}
			return true
		})
	}
	return r.err
}

// call records a call of a function that is named after a kind of metric and gets a metric's
// name, followed by its help and its labels.
func (r *reader) call(call *ast.CallExpr) {
	var function string
	fun := call.Fun
	if generic, ok := fun.(*ast.IndexExpr); ok {
		fun = generic.X
	}
	switch f := fun.(type) {
	case *ast.SelectorExpr:
		function = f.Sel.Name
	case *ast.Ident:
		function = f.Name
	}
	kind := kindOf(function)
	args := call.Args
	if kind == "" || len(args) == 0 {
		return
	}
	if options, ok := args[0].(*ast.CompositeLit); ok {
		args = slices.Concat(field(options, "Name"), field(options, "Help"), args[1:])
	}
	at := slices.IndexFunc(args, func(e ast.Expr) bool {
		text, ok := r.text(e)
		return ok && strings.HasPrefix(text, r.prefix)
	})
	if at < 0 {
		return
	}
	m := metric{kind: kind}
	m.name, _ = r.text(args[at])
	if function == "BuildInfo" {
		m.help, m.labels = buildInfo()
		r.found = append(r.found, m)
		return
	}
	if at+1 == len(args) {
		return // the name of a metric that another call makes
	}
	var ok bool
	if m.help, ok = r.text(args[at+1]); !ok {
		r.err = fmt.Errorf("the help of %s is not a constant text", m.name)
	}
	m.labels = r.labels(function, args[at+2:])
	r.found = append(r.found, m)
}

// kindOf returns the kind of metric that a function makes; empty if it makes none.
func kindOf(function string) string {
	name := strings.ToLower(strings.TrimPrefix(function, "New"))
	for _, kind := range []string{"counter", "gauge", "histogram"} {
		if strings.HasPrefix(name, kind) {
			return kind
		}
	}
	if function == "NewDesc" || function == "BuildInfo" {
		return "gauge"
	}
	return ""
}

// field returns the value of a field of a literal, if it has one.
func field(literal *ast.CompositeLit, name string) []ast.Expr {
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == name {
				return []ast.Expr{pair.Value}
			}
		}
	}
	return nil
}

// labels returns the labels among the arguments after the help: a list of them, or, for the
// functions of package obs, texts. A counter of that package has one label, which its values
// follow.
func (r *reader) labels(function string, args []ast.Expr) (labels []string) {
	if len(args) > 0 {
		if list, ok := args[0].(*ast.CompositeLit); ok {
			args = list.Elts
		} else if function == "CounterVec" {
			args = args[:1]
		} else if function != "GaugeVec" {
			return nil
		}
	}
	for _, arg := range args {
		if label, ok := r.text(arg); ok {
			labels = append(labels, label)
		}
	}
	return labels
}

// buildInfo returns the help and the labels of the metric that obs.BuildInfo makes.
func buildInfo() (help string, labels []string) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(obs.BuildInfo("build_info", "version"))
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		return "", nil
	}
	for _, label := range families[0].GetMetric()[0].GetLabel() {
		labels = append(labels, label.GetName())
	}
	return families[0].GetHelp(), labels
}

// text evaluates a constant text, and reports whether the expression is one.
func (r *reader) text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		x, left := r.text(e.X)
		y, right := r.text(e.Y)
		return x + y, left && right
	case *ast.Ident:
		value, ok := r.constants[e.Name]
		if !ok || value == e {
			return "", false
		}
		return r.text(value)
	}
	return "", false
}
