"""What every reason code means, in plain words, and what to do about it: one table for `doctor`, `validate` and the documentation."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """What happened, and the mend. ``ordinary`` marks what lies in the nature of a format: nobody has to mend it."""

    text: str
    mend: str = ""
    ordinary: bool = False


def _usual(text: str, mend: str = "") -> Reason:
    return Reason(text, mend, ordinary=True)


_CONVERT = "read it with the kind it was written for, or write it again in the plain format"
_AGAIN = "fetch or copy the file again"

#: Reason code → meaning. A code that means something else for one unit stands in `OF_UNIT` too.
REASONS: dict[str, Reason] = {
    # files and text
    "missing": Reason("the file is not there", "put it where the log says it lies, or correct the name in the log"),
    "outside_root": Reason("the name is unsafe or leads out of the folder", "use a path below the folder, without '..' and links outwards"),
    "unreadable": Reason("the file cannot be opened or is damaged", _AGAIN + ", or mend its permissions"),
    "lfs_pointer": Reason("a Git LFS pointer stands in for the file", "run `git lfs pull` where the files came from, then copy them again"),
    "too_large": Reason("larger than is safe to read", "split it into smaller files"),
    "not_utf8": Reason("the text is not UTF-8", "save the file as UTF-8"),
    "bad_json": Reason("the text is not JSON", "correct or remove it; a file that breaks off has to be fetched again"),
    "too_deep": Reason("the JSON is nested too deeply", "write it flatter"),
    "bad_csv": Reason("the text is not CSV", "save the table as comma-separated UTF-8"),
    "empty": Reason("the file is empty", _AGAIN),
    "damaged": Reason("the archive's member is damaged", "fetch the archive again"),
    "bad_archive": Reason("the archive is damaged or incomplete", "fetch the archive again; join its parts if it has several"),
    "bad_method": Reason("packed in a way that is not read", "pack the files again, stored or deflated"),
    "encrypted": Reason("the archive's member is encrypted", "pack the files again without a password"),
    "wrong_password": Reason("the password does not open the archive's member", "unpack it with the right one"),
    "too_many_members": Reason("the archive holds more files than is safe to read", "split it"),
    "duplicate_member": Reason("the archive names a file twice", "the last one counts; pack it again to be sure"),
    "unsafe_name": Reason("the name of the archive's member leads out of it, or is no name", "pack the files again with plain names"),
    "directory_mismatch": Reason("the archive's directory and its end disagree about the number of files", "fetch the archive again"),
    "link": Reason("the archive's member is a link", "pack the file itself"),
    "overlap": Reason("members of the archive lie over each other", "do not use it; fetch the archive from where it was published"),
    "bomb": Reason("the archive's member unpacks to far more than it says", "do not use it; fetch the archive from where it was published"),
    "nested_archive": Reason("an archive inside an archive", "unpack the outer one"),
    "bad_gzip": Reason("the gzip data is damaged", _AGAIN),
    "bad_pickle": Reason("no pickle, a damaged one, or one that is more than data", _AGAIN + "; never open it with Python itself"),
    "not_tfrecord": Reason("the file is no TFRecord file", "keep other files elsewhere"),
    "bad_checksum": Reason("the record's checksum is wrong", _AGAIN),
    "bad_example": Reason("the record is no tf.train.Example", _AGAIN),
    # pictures
    "truncated": Reason("the picture breaks off or is empty", _AGAIN),
    "not_an_image": Reason("the file is no picture in a known format", "save it as PNG, JPEG, WebP, GIF or BMP"),
    "no_name": Reason("the record names no picture", "name the picture in the record"),
    "bad_name": Reason("the picture's name is not of the format's form", "restore its original name"),
    "no_reply": _usual("the chat holds no reply to this screenshot"),
    "no_pictures": Reason("the result has no pictures", "put them into its folder 'trajectory'"),
    "no_number": Reason("the picture's name holds no number", "number the pictures in their order"),
    "duplicate_number": Reason("this number was used before", "number each only once"),
    "count_mismatch": Reason("there are not as many pictures or thoughts as actions", "keep one for each action, or number them by action"),
    "number_mismatch": _usual("picture, page and event do not bear one number, so it may show another moment"),
    "screenshot_broken": _usual("marked as a broken capture by its authors"),
    "screenshot_absent": _usual("marked as absent by its authors"),
    "screenshot_unrated": _usual("its authors do not say whether the capture is good"),
    "bad_screen": Reason("the screen is no array of pixels"),
    "wrong_count": Reason("there are not as many screens as actions and one"),
    "box_unit_unknown": _usual("nothing shows which unit the element's box is in, so it is not used"),
    "box_off_pointer": _usual("the pointer lies outside the element's box, so the box is not used"),
    # records
    "bad_record": Reason("the record is not of the format's form", "correct it or remove it"),
    "missing_field": Reason("a needed field is missing or of the wrong type", "fill it in"),
    "bad_step": Reason("the step cannot be read", "correct the field that is named"),
    "bad_action": Reason("the action is not text", "write it as text"),
    "bad_turn": Reason("neither talk nor an action in the browser"),
    "bad_number": Reason("the step's number is missing or repeated", "number the steps in their order"),
    "bad_index": Reason("the step's place in its task is missing or no whole number", _AGAIN),
    "duplicate_index": Reason("another row has the same place in its task", "remove one of the two"),
    "bad_operation": Reason("the operation cannot be read, so the action is `other`"),
    "duplicate_action": Reason("another action bears the same id"),
    "unmatched_action": _usual("screens of an action that the task's record does not list"),
    "duplicate_form": _usual("the task is there in another form too, which is read"),
    "duplicate_dump": Reason("the task's screens are there twice", "keep one"),
    "bad_label": Reason("the label names no task, or is none of the allowed answers", "use one of the allowed answers"),
    "bad_place": Reason("the file does not lie where the format puts it", "restore the folders as they are published"),
    "bad_reward": Reason("the reward is no number", "write a number, or true or false"),
    "bad_result": Reason("the result file holds no number", "write the score as a number"),
    "no_id": Reason("the row does not say which trajectory it belongs to", _AGAIN),
    "no_action": Reason("the record holds no action"),
    "no_actions": Reason("the record holds no list of actions", _CONVERT),
    "no_steps": Reason("no step could be kept", "see the trajectory's other reasons; an empty one can be removed"),
    "no_turns": Reason("the recording holds no list of turns", _AGAIN),
    "no_replies": Reason("the chat holds no reply of an agent", "remove the run, or finish it"),
    "no_messages": Reason("there are screenshots but no chat: the run stopped before it was saved", "run the task again, or remove it"),
    "no_instruction": Reason("neither the form nor the talk says what to do"),
    "bad_zoom": Reason("the zoom makes no sense, so no coordinates are used"),
    "other_place": Reason("the log names another benchmark, agent or experiment than its path, which is believed"),
    "other_task": Reason("the log's pictures are filed under another task", "see whether the file has its own name"),
    "step_count": Reason("the log has more or fewer records than its summary counts"),
    "marked_invalid": Reason("marked invalid by its authors, so there is no verdict"),
    "duplicate_row": _usual("the annotator gave these very answers in another row"),
    "no_verdict": Reason("the released judge does not say whether the agent succeeded"),
    "no_answer": Reason("the released judge left this question open"),
    "judge_error": Reason("the released judge failed, so there is no reply"),
    "no_experiment": Reason("the judgment names no experiment and nothing here tells it", "fetch the episode or the experts' answers"),
    "no_result": Reason("there is no result", "finish the run, or remove it"),
    "no_reward": Reason("there is no reward"),
    "no_summary": Reason("there is no summary of the run, so there is no verdict"),
    "no_score": Reason("the summary gives no score, so there is no verdict"),
    "ambiguous_summary": Reason("the summary gives several scores, so there is no verdict", "keep one"),
    "no_rows": Reason("the file has no rows", _AGAIN),
    "no_task_record": Reason("screens of a task that no record describes", "put the split that lists it under the same folder"),
    "no_split": Reason("it is in no split, or there is no such split", "give a split that is listed, or list it"),
    "several_splits": _usual("it is listed in several splits; the first is kept"),
    "no_such_agent": Reason("the logs have no such agent", "give one that is there"),
    "no_such_file": Reason("the logs have no such file", "give a pattern that fits one"),
    "no_trajectories": Reason("the archive holds no trajectory", "fetch one that does"),
    "no_shards": Reason("there is no file of that split", "give a split that was downloaded"),
    "no_trajectory_file": Reason("there is a result but no log of the actions", "fetch the whole run"),
    "no_trajectory": Reason("it belongs to a trajectory that was not kept"),
    "row_missing": _usual("the data set leaves these actions out, so the steps around them are not adjacent"),
    "wrong_columns": Reason("the table has other columns than the format", _CONVERT),
    "other_schema": Reason("the run is stored in another form", _CONVERT),
    "other_episode": Reason("the record belongs to another episode", "give each episode a file of its own"),
    "not_an_episode": Reason("the file is no episode of this format", _CONVERT),
    "not_a_session": Reason("the file is no session of this format", _CONVERT),
    "not_tasks": Reason("the file is no list of tasks", _CONVERT),
    "not_sessions": Reason("the lines are no sessions of this format", _CONVERT),
    "unknown_action": Reason("the action is none the format knows"),
    "unknown_role": Reason("the message is neither the user's nor the agent's"),
    "chat_turn": _usual("talk between people, not an action"),
    "page_load": _usual("a page that an action led to, not an action"),
    "error_line": Reason("the runner wrote an error in place of an action"),
    "error_only": Reason("the log holds nothing but errors", "run the task again"),
    "run_error": Reason("the run ended in an error, so there is no verdict"),
    "crashed": Reason("the run broke off", "run the task again, or leave it out"),
    "superseded": _usual("a later try took its place"),
    "harness_error": Reason("the harness failed, so there is no verdict"),
    "invalid": _usual("marked invalid by its authors"),
    "incomplete": Reason("some of its files are missing", "fetch the whole record"),
    # identities
    "unsafe_id": Reason(
        "the id is empty, too long, or not safe as a name", "give it a short id without slashes, '..' and control characters"
    ),
    "duplicate_id": Reason("a trajectory with this id came before", "give each trajectory an id of its own"),
    # pairs of screens
    "first_step": _usual("the first action has no screen before it in the log"),
    "last_step": _usual("the last action has no screen after it in the log"),
    "shared_picture": _usual("several actions share one picture, so no pair of screens belongs to one of them alone"),
    "step_gap": _usual("steps are missing around it, so its two screens are not adjacent"),
    "no_picture": Reason("the step names no picture, and its neighbours do not help", "log a picture for each step"),
    "picture_missing": Reason("one of its two pictures is not there", "restore the picture"),
    "picture_lfs_pointer": Reason("one of its two pictures is a Git LFS pointer", "run `git lfs pull` where the files came from"),
    "picture_truncated": Reason("one of its two pictures breaks off", "restore the picture"),
    "picture_too_large": Reason("one of its two pictures is too large to decode", "save it smaller"),
    "picture_not_an_image": Reason("one of its two pictures is no picture", "restore the picture"),
    # candidates of the probes
    "not_adjacent": _usual("the step has no pair of adjacent screens"),
    "bad_picture": Reason("one of its pictures cannot be read"),
    "blank_screen": _usual("one of its screens is blank or only a notice"),
    "unknown_change": _usual("its two screens cannot be compared"),
    "no_visible_change": _usual("nothing changes between its two screens"),
    "volatile_only": _usual("what changes is what changes by itself"),
    "outside_vocabulary": _usual("the action is not one the probe asks for"),
    "no_value": Reason("the log does not say what was typed or chosen", "log the value"),
    "masked_value": _usual("the value was struck out by its publisher"),
    "failed_action": _usual("the environment reported an error for the action"),
    "no_distractor": _usual("there is no screen that could stand beside it as a wrong answer"),
    "too_few_screens": _usual("the trajectory has too few different screens"),
    "ambiguous_order": _usual("a screen comes back, so the order cannot be told"),
    "indistinguishable_screens": _usual("two of its screens look alike"),
    "near_duplicate": _usual("another question shows the same"),
    "rejected_by_reviewer": _usual("turned down in the human quality control"),
    "trajectory_share": _usual("its trajectory has given its share"),
    "not_drawn": _usual("more than was asked for"),
}

#: (unit, code) → meaning, where it is not the usual one.
OF_UNIT: dict[tuple[str, str], Reason] = {
    ("picture", "missing"): Reason("the picture is not there", "put it where the log says it lies, or correct the name in the log"),
    ("picture", "lfs_pointer"): Reason("a Git LFS pointer stands in for the picture", "run `git lfs pull` where the files came from"),
    ("picture", "too_large"): Reason("too many pixels or bytes to decode safely", "save the picture smaller"),
    ("picture", "outside_root"): Reason("the picture's name is unsafe or leads out of the folder", "name pictures relative to the folder"),
    ("folder", "unreadable"): Reason("the folder cannot be listed", "mend its permissions"),
    ("step", "duplicate_number"): Reason("the step's number is missing or repeated", "number the steps in their order"),
}


def explain(code: str, unit: str | None = None) -> Reason:
    """Return what a code means; one that nobody explained stands for itself."""
    found = OF_UNIT.get((unit or "", code)) or REASONS.get(code)
    return found or Reason(code)
