package sandbox

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

// maxNotes bounds the notes on the screen.
const maxNotes = 10

// barWidth is the length of a progress bar, in cells.
const barWidth = 40

// Screen shows a run on a terminal.
type Screen struct {
	program *tea.Program
	ended   chan struct{}
}

var _ View = (*Screen)(nil)

// NewScreen uses the whole terminal until Close. It calls interrupt when q or Ctrl-C is
// pressed.
func NewScreen(in io.Reader, out io.Writer, title string, interrupt func()) *Screen {
	s := &Screen{ended: make(chan struct{})}
	s.program = tea.NewProgram(screenModel{title: title, interrupt: interrupt},
		tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	go func() {
		defer close(s.ended)
		// If drawing fails, the run continues, and its outcome is printed in any case.
		_, _ = s.program.Run()
	}()
	return s
}

// Show draws the status.
func (s *Screen) Show(status Status) { s.program.Send(status) }

// Note adds a line below the status.
func (s *Screen) Note(text string) { s.program.Send(note(text)) }

// Close restores the terminal. The last screen stays above later output.
func (s *Screen) Close() {
	s.program.Quit()
	<-s.ended
}

type note string

// screenModel is the screen's state, in Bubble Tea's terms.
type screenModel struct {
	title     string
	interrupt func()
	status    Status
	notes     []string
}

// Init does nothing.
func (m screenModel) Init() tea.Cmd { return nil }

// Update handles a status, a note or a key.
func (m screenModel) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case Status:
		m.status = message
	case note:
		at := m.status.Elapsed.Truncate(100 * time.Millisecond)
		m.notes = append(m.notes[max(0, len(m.notes)-maxNotes+1):], fmt.Sprintf("%6s  %s", at, message))
	case tea.KeyPressMsg:
		if key := message.String(); key == "ctrl+c" || key == "q" {
			m.interrupt()
		}
	}
	return m, nil
}

// View draws the screen.
func (m screenModel) View() tea.View {
	var (
		title = lipgloss.NewStyle().Bold(true)
		faint = lipgloss.NewStyle().Faint(true)
		s     = m.status
		b     strings.Builder
	)
	fmt.Fprintf(&b, "%s  %s %s\n\n", title.Render("Penstock sandbox: "+m.title), s.Phase, s.Elapsed.Truncate(100*time.Millisecond))
	for _, stage := range []struct {
		name  string
		count int
	}{{"stored", s.Stored}, {"published", s.Published}, {"projected", s.Projected}} {
		fmt.Fprintf(&b, "  %-10s %s %*d / %d\n", stage.name, bar(stage.count, s.Total), len(fmt.Sprint(s.Total)), stage.count, s.Total)
	}
	leader := s.Leader
	if leader == "" {
		leader = lipgloss.NewStyle().Foreground(lipgloss.Red).Render("none")
	}
	fmt.Fprintf(&b, "\n  leader      %-22s epoch       %d\n", leader, s.Epoch)
	fmt.Fprintf(&b, "  publishers  %-22d projectors  %d\n", s.Publishers, s.Projectors)
	fmt.Fprintf(&b, "  lag         %-22s rate        %d/s\n", fmt.Sprintf("%d events", s.Lag()), s.ProjectedRate)
	fmt.Fprintf(&b, "  sessions    %-22d duplicates  %d dropped by the broker, %d met by projectors\n\n",
		s.Sessions, s.DuplicatesDropped, s.DuplicatesMet)
	for _, rebuild := range s.Rebuilds {
		b.WriteString(rebuild.view())
	}
	for _, page := range s.Pages {
		fmt.Fprintf(&b, "  %-11s %s\n", page.Service, page.URL)
	}
	b.WriteString("\n")
	for _, n := range m.notes {
		fmt.Fprintf(&b, "  %s\n", faint.Render(n))
	}
	return tea.NewView(b.String())
}

// view draws the rebuild.
func (r *RebuildStatus) view() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %-10s %s %s\n", cmp.Or(r.Job, "rebuild"), bar(int(r.Done), int(r.Total)), r.State)
	fmt.Fprintf(&b, "  projection  %-22s generation  %d\n", r.Projection, max(r.Live, r.Building))
	fmt.Fprintf(&b, "  reads       %-22d of them      %d empty, %d mixed\n\n", r.Reads.Total, r.Reads.Empty, r.Reads.Mixed)
	return b.String()
}

func bar(count, total int) string {
	filled := 0
	if total > 0 {
		filled = min(barWidth, count*barWidth/total)
	}
	return strings.Repeat("█", filled) + strings.Repeat("░", barWidth-filled)
}
